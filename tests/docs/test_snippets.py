"""What the documentation tells its readers to do works; docs/tools/snippets.py has the rules."""

import ast
import importlib.util
import re
import shutil
import sys

import jax
import pytest

import proxfl as px
from tests.deploy import conftest  # noqa: F401  # Flower, past its warnings
from tests.test_imports import PACKAGE

ROOT = PACKAGE.parent


def tool(name):
    """A module of docs/tools, which is no package."""
    path = ROOT / "docs" / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"docs_tools_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


snippets = tool("snippets")
# Pages of the gallery hold the examples, which have their own tests.
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "tests").glob("*.md"), *(ROOT / "docs").glob("*.md")])
BLOCKS = [(page, block) for page in PAGES for block in snippets.blocks(page)]
QUOTED = [(page, block) for page, block in BLOCKS if "/" in block.title]
READ = [(page, b) for page, b in BLOCKS if b.language == "python" and b.reason]
PARSED = [
    (page, block, words[1:])
    for page, block in BLOCKS
    if block.language == "sh"
    for words in snippets.commands(block)
    if words[0] == "proxfl"
]


def where(value):
    return value.stem if hasattr(value, "stem") else str(getattr(value, "line", ""))


def is_run(block):
    quoted = "/" in block.title or block.text.startswith("--8<--")
    return (block.language in ("python", "sh") or block.title) and not block.reason and not quoted


# What a page needs that is not everybody's.
NEEDS = {"torch.md": "torch"}
# The case study has a test that also looks at what is printed.
RUN = [p for p in PAGES if p.stem != "case-study" and any(map(is_run, snippets.blocks(p)))]


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory):
    """The folder of somebody who made the files of start.md."""
    folder = tmp_path_factory.mktemp("hospitals")
    page = ROOT / "docs" / "start.md"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        snippets.run(next(b for b in snippets.blocks(page) if b.language == "python"), page, {})
    return folder


@pytest.mark.parametrize("page", RUN, ids=where)
@pytest.mark.filterwarnings("default")  # as a reader has it
def test_what_a_page_tells_to_do_works(page, hospitals, tmp_path, monkeypatch):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name], reason="an extra that is not installed")
    if page.name != "start.md":  # which makes them
        shutil.copytree(hospitals, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        for block in filter(is_run, snippets.blocks(page)):
            snippets.run(block, page, names)


@pytest.mark.parametrize("page", PAGES, ids=where)
def test_no_block_escapes(page):
    text = page.read_text()
    assert len(re.findall(r"^ *```\w", text, re.MULTILINE)) == len(list(snippets.blocks(page)))
    assert not re.search(r"^ {4,}(proxfl|pip|python) ", snippets.BLOCK.sub("", text), re.MULTILINE)


@pytest.mark.parametrize(("page", "block"), QUOTED, ids=where)
def test_what_a_page_quotes_is_there(page, block):
    assert block.text in (ROOT / block.title).read_text()


@pytest.mark.parametrize(("page", "block"), READ, ids=where)
def test_what_a_block_imports_that_is_only_read_is_there(page, block):
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("proxfl"):
            module = importlib.import_module(str(node.module))
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "px":
            assert hasattr(px, node.attr), node.attr


def test_commands_are_as_the_parsers_want_them():
    from proxfl.cli.main import parser

    filled = parser()
    for page, block, words in PARSED:
        try:
            filled.parse_args(words)
        except SystemExit:
            pytest.fail(f"{page}:{block.line}: proxfl {' '.join(words)}")
