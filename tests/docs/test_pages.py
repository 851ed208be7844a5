"""Pages that scripts write are what the scripts would write, and what pages name is there."""

import importlib
import os
import pkgutil
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import proxfl as px
from tests.deploy import conftest  # noqa: F401  # Flower, past its warnings
from tests.docs.test_snippets import PAGES, ROOT, snippets, tool
from tests.test_imports import NAMES

PATH = re.compile(r"`((?:proxfl|tests|docs|examples|benchmarks|results)/[\w./-]*)`")
LINK = re.compile(r"\]\((?!\w+:)([^()#\s]*)#?([^()\s]*)\)")
INCLUDED = re.compile(r'^--8<-- "(.+\.md)"$', re.MULTILINE)
DOTTED = re.compile(r"`(proxfl(?:\.\w+)+)")


def test_the_command_line_is_told_as_the_parsers_have_it():
    assert (ROOT / "docs" / "cli.md").read_text() == tool("cli_page").page()


def test_a_vectors_walk_is_short_and_drawn_as_the_code_has_it():
    walk = tool("walk")
    drawn = walk.FIGURE.read_text()
    for (title, hops), most in zip(walk.walks().items(), walk.MOST, strict=True):
        assert walk.heading(title, hops) in drawn, "draw it anew: python docs/tools/walk.py"
        assert len(hops) <= most, f"{title} has more than {most} hops; hand the vector on to fewer"


@pytest.mark.parametrize("folder", ["deploy/site", "deploy/masking", "train"])
def test_the_largest_folders_are_told_file_by_file(folder):
    _, page = (ROOT / "docs" / "architecture.md").read_text().split(f"in `{folder}/`", 1)
    table = page[page.index("| --- |") :].split("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", table))
    held = {path.stem for path in (ROOT / "proxfl" / folder).glob("*.py")} - {"__init__"}
    assert named == held


def test_every_module_that_python_finds_is_in_the_reference():
    reference, site = tool("reference"), (ROOT / "mkdocs.yml").read_text()
    parts = [{title: []} for title in re.findall(r"^  - (.+):$", site, re.M)]  # of the navigation
    linked = str(reference.on_config(SimpleNamespace(nav=parts)).nav)
    shown = [text for page, text in reference.pages().items() if f"'{page}'" in linked]
    found = [module.name for module in pkgutil.walk_packages(px.__path__, "proxfl.")]
    assert sorted(re.findall(r"^::: (.+)$", "\n".join(shown), re.M)) == sorted(found)


@pytest.mark.parametrize("path", tool("gallery").examples(), ids=lambda path: path.stem)
def test_the_gallery_shows_the_example_as_it_is(path):
    gallery = tool("gallery")
    told = gallery.about(path)
    page = (gallery.GALLERY / f"{told['name']}.md").read_text()
    assert told["code"] in page and told["lead"] in page
    assert f"]({told['name']}.md)" in (gallery.GALLERY / "index.md").read_text()
    assert (gallery.GALLERY / f"{told['name']}.png").exists()


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "CHANGELOG.md"],  # which names what is no more
    ids=lambda page: page.stem,
)
def test_files_and_modules_that_a_page_names_are_there(page):
    text = page.read_text()
    lost = [name for name in PATH.findall(text) if not (ROOT / name).exists()]
    lost += [name for name in DOTTED.findall(text) if not resolves(name)]
    assert [name for name in lost if "NAME" not in name] == []


def anchors(page):
    """What the headings of a page, and of those it includes, are called in its address."""
    texts = [page.read_text()]
    texts += [(ROOT / name).read_text() for name in INCLUDED.findall(texts[0])]
    headings = re.findall(r"^#+ (.+)$", "\n".join(texts), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_lead_to_files_and_headings(page):
    lost = []
    for name, anchor in LINK.findall(snippets.BLOCK.sub("", page.read_text())):
        target = Path(os.path.normpath(page.parent / name)) if name else page
        there = target.exists() and (not anchor or anchor in anchors(target))
        if not there or (page.parent.name == "docs" and ROOT / "docs" not in target.parents):
            lost.append(f"{name}#{anchor}")
    assert lost == []


def resolves(name):
    """Whether a dotted name is a module, or what one holds."""
    parts = name.split(".")
    known = next(k for k in range(len(parts), 0, -1) if ".".join(parts[:k]) in NAMES)
    found = importlib.import_module(".".join(parts[:known]))
    for part in parts[known:]:
        found = getattr(found, part, None)
    return found is not None
