"""Facts live with their owner: nobody else asks which loss or which penalty it is."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from proxfl.algorithms import REGISTRY as METHODS
from proxfl.losses import REGISTRY as LOSSES
from proxfl.train.penalties import REGISTRY as PENALTIES

PACKAGE = Path(__file__).parent.parent / "proxfl"
# These speak of one loss or penalty by name because that is what they are about.
NAMED = ("estimators", "research", "data", "cli/commands/federate/demo.py")
CLASSES = {kind.__name__ for kind in LOSSES.values()} | {
    "Linear",
    "Rowwise",
    "Convex",
    "RowLoss",
    "SiteLoss",
}
# A method has a number of this name too.
NAMES = set(LOSSES) - {field.name for kind in METHODS.values() for field in fields(kind)}
KEYS = {option.key for penalty in PENALTIES.values() for option in penalty.options}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(NAMED):
            yield name, ast.parse(path.read_text())


def names_in(node: ast.AST) -> set[str]:
    """The last word of every name in an expression."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def texts_in(node: ast.AST) -> set[str]:
    return {
        n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }


def asked_for(tree: ast.Module, classes: set[str], names: set[str]) -> Iterator[int]:
    """Lines that test for one of the classes, or compare, match or look up one of the names."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kind]):
                wrong = names_in(kind) & classes
            case ast.Compare():
                wrong = (texts_in(node) & names) | (names_in(node) & classes)
            case ast.MatchValue() | ast.MatchClass():
                wrong = (texts_in(node) & names) | (names_in(node) & classes)
            case ast.Dict(keys=keys):
                wrong = {k.value for k in keys if isinstance(k, ast.Constant)} & names
            case _:
                wrong = set()
        if wrong:
            yield node.lineno


def test_nobody_asks_which_loss_it_is():
    wrong = [
        f"{name}:{line}" for name, tree in modules() for line in asked_for(tree, CLASSES, NAMES)
    ]
    assert wrong == []


def test_nobody_names_a_penalty_but_its_record():
    wrong = []
    for name, tree in modules():
        if name.startswith("train/penalties/"):
            continue
        for node in ast.walk(tree):
            held = isinstance(node, ast.Constant) and node.value in KEYS
            read = isinstance(node, ast.Attribute) and node.attr in KEYS
            if held or read:
                wrong.append(f"{name}:{node.lineno}")
    assert wrong == []


def test_a_record_names_no_penalty_but_its_own():
    for penalty in PENALTIES.values():
        path = PACKAGE.parent / Path(*penalty.make.__module__.split(".")).with_suffix(".py")
        own = {option.key for option in penalty.options}
        tree = ast.parse(path.read_text())
        read = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)} & KEYS
        assert (read | texts_in(tree) & KEYS) <= own, path.name


def test_the_guard_sees_each_way_to_ask():
    for source in (
        "isinstance(loss, Logistic)",
        "isinstance(loss, Squared | losses.Huber)",
        "type(loss) is Softmax",
        "spec.loss == 'poisson'",
        "spec.loss in ('logistic', 'softmax')",
        "match spec.loss:\n    case 'huber': pass",
        "match loss:\n    case Huber(): pass",
        "{'logistic': 1}[spec.loss]",
    ):
        assert list(asked_for(ast.parse(source), CLASSES, set(LOSSES))), source
