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


def on_config(config):
    for entry in config.nav:
        if TITLE in entry:
            entry[TITLE] += [{f"proxfl.{name}": f"api/{name}.md"} for name in parts()]
    return config


def on_files(files, config):
    from mkdocs.structure.files import File

    for name, modules in parts().items():
        text = "\n".join([f"# proxfl.{name}\n", *(f"::: {module}" for module in modules)])
        files.append(File.generated(config, f"api/{name}.md", content=text))
    return files
