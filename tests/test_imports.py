"""Imports point one way, and importing changes nothing."""

import ast
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "proxfl"

# A module may import from its own layer's earlier names and from the layers above it only.
LAYERS = [
    ["pytree", "files", "precision", "progress", "tables", "rules", "sinks", "programs"],
    ["points", "spec", "sparse"],
    ["core", "rings"],
    ["losses", "batches", "prox"],
    ["algorithms", "privacy", "penalties", "conjugates"],
    ["problem", "data", "models"],
    ["engine", "federation", "devices"],
    ["rounds", "checkpoint", "export"],
    ["measure", "smoothness", "checks"],
    ["result", "tasks", "theory"],
    ["simulation"],
    ["sweep", "problems"],
    ["report"],
    ["fit"],
    ["reproduce", "league", "deploy", "estimators"],
    ["cli"],
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def module_level_imports(path):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("proxfl."):
            yield node.module.split(".")[1]


def test_imports_point_one_way():
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part in ("__init__", "__main__"):
            continue
        assert part in RANK, f"{part} has no place in LAYERS"
        for target in module_level_imports(path):
            if target != part and RANK[target] >= RANK[part]:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {target}")
    assert not wrong


def test_algorithms_know_only_the_core():
    allowed = {"core", "points", "pytree", "rings", "algorithms"}
    for path in (PACKAGE / "algorithms").glob("*.py"):
        assert set(module_level_imports(path)) <= allowed, path.name


def test_importing_leaves_the_settings_of_jax_alone():
    code = (
        "import jax; before = dict(jax.config.values); import proxfl;"
        "changed = {k for k, v in jax.config.values.items() if before.get(k) != v};"
        "assert not changed, changed"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
