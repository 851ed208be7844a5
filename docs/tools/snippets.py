"""The fenced blocks of a page, for those who run them.

    ```python                                  code: the blocks of a page run in one namespace
    ```sh                                      commands: those of proxfl run in this process
    ```toml title="experiment.toml"            a file that the page's reader writes, in any language
    ```python title="proxfl/core.py"           with a folder: words of that file of the repository
    --8<-- "proxfl/core.py"                    in a block: the whole of such a file
    <!-- not run: needs a server -->           before a block: why it is only read

Other blocks are for the eye.
"""

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(
    r"^(?:[ ]*<!-- not run: (?P<reason>[^\n]+?) -->\n)?"
    r"^(?P<indent>[ ]*)```(?P<language>\w+)(?:[ ]+title=\"(?P<title>[^\"\n]+)\")?[ ]*\n"
    r"(?P<text>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    language: str
    text: str
    title: str
    reason: str  # why it is not run; empty if it is
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page in order."""
    text = page.read_text()
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("text"))
        held = textwrap.dedent(found["text"])
        yield Block(found["language"], held, found["title"] or "", found["reason"] or "", line)


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each command of a block, without comments."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


def run(block: Block, page: Path, names: dict) -> None:
    """Do in the current folder what the block says, as its reader would."""
    from proxfl.cli.main import main

    if block.title:
        Path(block.title).write_text(block.text)
    elif block.language == "python":
        lines = "\n" * block.line  # so that an error names the line of the page
        exec(compile(lines + block.text, str(page), "exec"), names)
    elif block.language == "sh":
        for program, *words in commands(block):
            if program != "proxfl":
                raise ValueError(f"{page}:{block.line}: say why {program} is not run.")
            if code := main(words):
                raise ValueError(f"{page}:{block.line}: {shlex.join(words)} gave {code}.")
