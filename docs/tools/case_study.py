"""Run docs/case-study.md, and write what it prints, and its pictures, into it.

A block of text right after a block that is run holds what that prints.
"""

import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path

import snippets

PAGE = Path(__file__).resolve().parent.parent / "case-study.md"
# By name, where the commands of the page put them.
PICTURES = {
    "coefficients": "out/path/figures/coefficients.png",
    "cross-validation": "out/path/figures/cross-validation.png",
    "survival": "survival.png",
}
WIDTH = "100"  # of a terminal
SHOWN = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def printed() -> Iterator[str]:
    """Do in the current folder what the page says; what each block of text should hold."""
    names, last = {"__name__": PAGE.stem}, ""
    for block in snippets.blocks(PAGE):
        if block.language == "text":
            yield last
            continue
        out = io.StringIO()
        with redirect_stdout(out):
            snippets.run(block, PAGE, names)
        last = "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def main() -> None:
    folder = PAGE.with_suffix("")
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work, chdir(work):
        os.environ["COLUMNS"] = WIDTH
        texts = iter(list(printed()))
        for name, path in PICTURES.items():
            shutil.copy(path, folder / f"{name}.png")
    PAGE.write_text(SHOWN.sub(lambda _: f"```text\n{next(texts)}```", PAGE.read_text()))


if __name__ == "__main__":
    main()
