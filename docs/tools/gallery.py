"""Run the examples and write docs/gallery/: for each its picture, what it printed, and its code."""

import ast
import io
import runpy
from contextlib import chdir, redirect_stdout
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
EXAMPLES, GALLERY = ROOT / "examples", ROOT / "docs" / "gallery"

INDEX = """# Gallery

Each example is a script in `examples/`, run by the tests; pictures and outputs are made by
`python docs/tools/gallery.py`.

"""
ENTRY = """## [{title}]({name}.md)

{lead}

[![{title}]({name}.png){{ width="420" }}]({name}.md)

"""
PAGE = """# {title}

{lead}

![{title}]({name}.png)

It prints

```text
{printed}
```

The script is `examples/plot_{name}.py`:

```python
{code}
```
"""


def examples() -> list[Path]:
    return sorted(EXAMPLES.glob("plot_*.py"), key=lambda path: ("first" not in path.stem, path))


def about(path: Path) -> dict[str, str]:
    """Title and lead by the docstring, the code without it."""
    source = path.read_text()
    tree = ast.parse(source)
    said = ast.get_docstring(tree) or ""
    title, _, lead = said.partition("\n")
    code = "\n".join(source.splitlines()[tree.body[0].end_lineno :]).strip()
    return {
        "name": path.stem.removeprefix("plot_"),
        "title": title.rstrip("."),
        "lead": lead.strip(),
        "code": code,
    }


def run(path: Path) -> str:
    """Let a script put its picture into the gallery; what it prints is returned."""
    printed = io.StringIO()
    with redirect_stdout(printed), chdir(GALLERY):
        runpy.run_path(str(path), run_name="__main__")
    return printed.getvalue().strip()


def main() -> None:
    GALLERY.mkdir(exist_ok=True)
    index = INDEX
    for path in examples():
        told = about(path)
        page = PAGE.format(**told, printed=run(path))
        (GALLERY / f"{told['name']}.md").write_text(page)
        index += ENTRY.format(**told)
    (GALLERY / "index.md").write_text(index.rstrip() + "\n")


if __name__ == "__main__":
    main()
