"""What is used is declared, what is declared is locked with hashes, and locks name no place."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from release import EXTRAS, audit, lock
from tests.test_imports import PACKAGE, ROOT, modules

PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
# Where what an extra brings may be used; elsewhere a user who did not ask for it would miss it.
PLACES = {
    "flower": (
        "proxfl.deploy.ops",
        "proxfl.deploy.masking",
        "proxfl.deploy.transport.flower",
        "proxfl.cli.commands.federate",
        "proxfl.flower",
    ),
    "parquet": ("proxfl.tables",),
    "sites": ("proxfl.research.real",),
    "privacy": ("proxfl.algorithms",),
    "sklearn": ("proxfl.estimators", "proxfl.tables.libsvm"),
    "tensorboard": ("proxfl.console",),
    "mlflow": ("proxfl.console",),
    "torch": ("proxfl.torch",),
}
NOT_HERE = {"mlflow": ["mlflow-skinny"]}  # what the tests do without, by the module it brings
PIN = re.compile(r"([\w.-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


def canonical(name):
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~;\[]", name)[0]).lower()


def declared(extra=None):
    """What users get by default, or by an extra and the extras it names."""
    listed = PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]
    inner = [re.findall(r"[\w-]+", name)[1:] for name in listed if canonical(name) == ROOT]
    return {canonical(name) for name in listed}.union(*map(declared, sum(inner, []))) - {ROOT}


def third_party(path):
    """The top-level names that a module imports and that come from elsewhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module.split(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "needed":
            found.add(ast.literal_eval(node.args[0]).split(".")[0])  # an extra's, by its name
    return found - set(sys.stdlib_module_names) - {ROOT}


def test_every_import_is_declared_for_where_it_is():
    known, wrong = packages_distributions() | NOT_HERE, []
    for name, path in modules():
        here = [extra for extra, places in PLACES.items() if name.startswith(places)]
        allowed = declared().union(*map(declared, here))
        for module in third_party(path):
            if not {canonical(dist) for dist in known.get(module, [module])} & allowed:
                wrong.append(f"{name} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_nothing_is_declared_that_nobody_imports():
    used = set().union(*(third_party(path) for _, path in modules()))
    known = packages_distributions() | NOT_HERE
    used = {canonical(dist) for module in used for dist in known.get(module, [module])}
    for extra in (None, *PLACES):
        assert declared(extra) - {"pyarrow"} <= used, extra  # which pandas imports


def pins(name):
    text = lock(name).read_text()
    found = PIN.findall(text)
    rest = [line for line in PIN.sub("", text).splitlines() if not line.startswith("#")]
    assert rest == [], f"{lock(name)} holds something else than versions with hashes: {rest[0]}"
    return {canonical(package): version for package, version, _ in found}


def test_locks_hold_versions_with_hashes_and_nothing_else():
    """No address in particular: from where packages come is everybody's own choice."""
    for name in EXTRAS:
        assert pins(name)


def test_what_is_declared_is_locked_and_locks_agree():
    held = {name: pins(name) for name in EXTRAS}
    for name, extras in EXTRAS.items():
        assert declared().union(*map(declared, extras)) <= held[name].keys(), name
        assert "hatchling" in held[name]  # which makes the project itself
    for name in EXTRAS:
        for package, version in held[name].items():
            assert held["release"].get(package, version) == version
            assert held["dev"].get(package, version) == version


@pytest.mark.parametrize(
    ("out", "err", "code", "words"),
    [
        ("", "ConnectionError: no route", 2, "so nothing was audited: ConnectionError: no route"),
        ('{"dependencies": []}', "", 2, "so nothing was audited: no package"),
        ('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', "", 0, "1 packages"),
        ('{"dependencies": [{"name": "a", "skip_reason": "why"}]}', "", 2, "was audited: why"),
        (
            '{"dependencies": [{"name": "a", "skip_reason": "why"}, '
            '{"name": "b", "version": "1", "vulns": []}]}',
            "",
            1,
            "a was not audited: why",
        ),
        (
            '{"dependencies": [{"name": "a", "version": "1", "vulns": '
            '[{"id": "X-1", "fix_versions": ["2"]}]}]}',
            "",
            1,
            "a 1: X-1, mended in 2.",
        ),
    ],
)
def test_an_audit_that_reached_nobody_is_no_good_news(out, err, code, words):
    found, sentences = audit.verdict(out, err)
    assert found == code and words in sentences[0]


def test_no_file_of_the_release_names_a_place():
    for path in [*Path("requirements").iterdir(), Path("pyproject.toml"), Path("Makefile")]:
        assert not re.search(r"index-url|find-links|trusted-host|https?://", path.read_text()), path
