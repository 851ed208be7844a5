"""A class that other modules import has a name of its own: who reads it knows which is meant."""

import ast
from collections import defaultdict

from tests.test_imports import modules

# By name, why two folders may have one each.
ALLOWED = {
    "ConvergenceWarning": "that of the estimators is scikit-learn's as well as ours",
    "Memory": "of a method, what its clients keep; of Newton's, the last moves and turns",
    "Model": "of a method, what its server broadcasts, as in its pseudocode",
    "Reply": "of a client to a server; under masks, of a member to all",
    "Wanted": "of a design, the columns; of a driver, the solutions",
}


def shared():
    """Names of classes, and the folders that have one which another module imports."""
    trees = {name: ast.parse(path.read_text()) for name, path in modules()}
    homes, found = defaultdict(set), defaultdict(set)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(name)
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    at = {h for h in homes[alias.name] if f"{h}.".startswith(f"{node.module}.")}
                    found[alias.name] |= {home.split(".")[1] for home in at}
    return {name: folders for name, folders in found.items() if len(folders) > 1}


def test_no_two_folders_share_a_class_name_without_a_reason():
    assert shared().keys() == ALLOWED.keys()
