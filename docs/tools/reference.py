"""A hook of MkDocs: a page of reference for every folder of the package, from its docstrings."""

from pathlib import Path

PACKAGE = Path(__file__).parent.parent.parent / "proxfl"
TITLE = "Python reference"


def parts() -> dict[str, list[str]]:
    """Folder, or module at the root -> the dotted names of all modules in it."""
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        names = path.relative_to(PACKAGE).with_suffix("").parts
        if names != ("__init__",):
            inner = [name for name in names if name != "__init__"]
            found.setdefault(names[0], []).append(".".join(["proxfl", *inner]))
    return found


def pages() -> dict[str, str]:
    """By address, the text of each page."""
    text = lambda name, modules: "\n".join([f"# proxfl.{name}\n", *(f"::: {m}" for m in modules)])
    return {f"api/{name}.md": text(name, modules) for name, modules in parts().items()}


def on_config(config):
    for entry in config.nav:
        if TITLE in entry:
            entry[TITLE] += [{f"proxfl.{Path(page).stem}": page} for page in pages()]
    return config


def on_files(files, config):
    from mkdocs.structure.files import File

    for page, text in pages().items():
        files.append(File.generated(config, page, content=text))
    return files
