"""Imports go one way by folder, and importing changes nothing."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = "proxfl"
PACKAGE = Path(__file__).parent.parent / ROOT
IMPORTERS = ("import_module", "__import__")
# Modules at the root, then folders: each may import from those before it, and from itself. Of a
# folder with dotted entries every folder inside has one; its own name stands for its __init__.
ORDER = """
pytree points core precision errors plugins
storage console drawing options
losses prox algorithms
problem torch engine
tables data train report notebook
deploy deploy.ops deploy.protocol deploy.masking deploy.site deploy.server deploy.transport
flower estimators research cli
""".split()


def modules() -> Iterator[tuple[str, Path]]:
    """Every module by its dotted name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


DIVIDED = {entry.split(".")[0] for entry in ORDER if "." in entry}
NAMES = {name for name, _ in modules()}


def imported(name: str, path: Path) -> Iterator[str]:
    """What a module imports, at its top or in a function, in whatever form.

    The root itself, of which anything can be had that it gives to users, is named ROOT.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
            bound = {alias.name.split(".")[0] for alias in node.names if not alias.asname}
            yield from bound & {ROOT}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                if inner != f"{ROOT}.__version__":
                    yield inner if inner in NAMES else base
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # As for importlib and `python -m`; the root's name alone is a word like any other.
            yield from {node.value.partition(":")[0]} & NAMES - {ROOT}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(IMPORTERS):
            if [ast.unparse(argument) for argument in node.args[:1]] == [repr(ROOT)]:
                yield ROOT


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
            if target.split(".")[0] == ROOT and there in ORDER:
                if ORDER.index(there) > ORDER.index(here):
                    wrong.append(f"{name} imports {target}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_inside_the_package_nothing_is_had_from_its_root_but_modules_and_the_version():
    wrong = [name for name, path in modules() if ROOT in imported(name, path)]
    assert not wrong, "Import from the module that defines it: " + ", ".join(wrong)


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
        "from proxfl import simulate": ROOT,
        "from proxfl import *": ROOT,
        "from . import simulate": ROOT,
        "import proxfl": ROOT,
        "import proxfl as px\npx.train": ROOT,
        "import proxfl.points\nproxfl.train": ROOT,
        "import importlib\nimportlib.import_module('proxfl')": ROOT,
    }
    for source, target in forms.items():
        path = tmp_path / "core.py"
        path.write_text(source)
        assert target in set(imported("proxfl.core", path)), source


def test_the_guard_lets_modules_and_the_version_be_had_from_the_root(tmp_path):
    path = tmp_path / "core.py"
    path.write_text("from proxfl import __version__, points\nimport proxfl.points as p\n'proxfl'")
    assert set(imported("proxfl.core", path)) == {"proxfl.points"}


def test_algorithms_know_only_the_core():
    allowed = {"core", "points", "pytree", "algorithms"}
    for name, path in modules():
        if place(name) == "algorithms":
            found = {place(t) for t in imported(name, path) if t.split(".")[0] == ROOT}
            assert found <= allowed, name


def test_importing_leaves_the_settings_of_jax_alone():
    code = (
        "import jax; before = dict(jax.config.values); import proxfl;"
        "changed = {k for k, v in jax.config.values.items() if before.get(k) != v};"
        "assert not changed, changed"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
