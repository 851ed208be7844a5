"""Imports go one way by folder, and importing changes nothing."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "proxfl"
# Modules at the root, then folders: each may import from those before it, and from itself. Of a
# folder with dotted entries every folder inside has one; its own name stands for its __init__.
ORDER = """
pytree points core precision errors plugins
storage console drawing options
losses prox algorithms
problem engine
tables data train report
deploy deploy.ops deploy.protocol deploy.site deploy.server deploy.transport
estimators research cli
""".split()


def modules() -> Iterator[tuple[str, Path]]:
    """Every module by its dotted name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


DIVIDED = {entry.split(".")[0] for entry in ORDER if "." in entry}
NAMES = {name for name, _ in modules()}


def imported(name: str, path: Path) -> Iterator[str]:
    """What a module imports of the package, at its top or in a function, in whatever form."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in NAMES else base
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from {node.value.partition(":")[0]} & NAMES  # as for importlib and `python -m`


def place(name: str) -> str:
    """The entry of ORDER that a dotted name belongs to; the root's is empty."""
    parts = name.split(".")[1:]
    return ".".join(parts[: 2 if parts and parts[0] in DIVIDED else 1])


def test_imports_go_one_way():
    wrong = []
    for name, path in modules():
        here = place(name)
        if not here:
            continue
        assert here in ORDER, f"{here} has no place in ORDER"
        for target in imported(name, path):
            there = place(target)
            if target.split(".")[0] == "proxfl" and there in ORDER:
                if ORDER.index(there) > ORDER.index(here):
                    wrong.append(f"{name} imports {target}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_the_guard_reads_every_form_of_import(tmp_path):
    forms = {
        "import proxfl.cli.main": "proxfl.cli.main",
        "import proxfl.cli.main as m": "proxfl.cli.main",
        "from proxfl.cli import main": "proxfl.cli.main",
        "from proxfl.cli.main import program": "proxfl.cli.main",
        "from proxfl import cli": "proxfl.cli",
        "from . import cli": "proxfl.cli",
        "from .cli import main": "proxfl.cli.main",
        "def f():\n    from proxfl.cli import main": "proxfl.cli.main",
        "import importlib\nimportlib.import_module('proxfl.cli.main')": "proxfl.cli.main",
        "command = ['-m', 'proxfl.cli.main']": "proxfl.cli.main",
    }
    for source, target in forms.items():
        path = tmp_path / "core.py"
        path.write_text(source)
        assert target in set(imported("proxfl.core", path)), source


def test_algorithms_know_only_the_core():
    allowed = {"core", "points", "pytree", "algorithms", ""}
    for name, path in modules():
        if place(name) == "algorithms":
            found = {place(t) for t in imported(name, path) if t.split(".")[0] == "proxfl"}
            assert found <= allowed, name


def test_importing_leaves_the_settings_of_jax_alone():
    code = (
        "import jax; before = dict(jax.config.values); import proxfl;"
        "changed = {k for k, v in jax.config.values.items() if before.get(k) != v};"
        "assert not changed, changed"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
