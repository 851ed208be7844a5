"""Names that nobody should have to fear, by seed."""

import random
import unicodedata

PIECES = (
    "[/red]", "[bold]", "[link=file:///etc/passwd]x[/link]", ":skull:", "cost_$x_{$", "$$", r"\$",
    r"$\frac{1}{0}$", "$", "_", "^", "{", "}", "{0}", "{task}", "%s", "%(x)d", "%", "%n", "#", "&",
    "\x1b[31m", "\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "\a", "\b", "\r", "\n", "\t", "\x7f",
    "a\x00b", "\u202e", "\u2066", "\u200f", "\u200b", "\ufeff", "\u2028", "\u0085", "\u0301" * 9,
    "=cmd|' /C calc'!A0", "=1+1", "+1", "-2+3", "@SUM(A1)", '"', "'", "`", '","', "''", ";", ",",
    "\\", "\\n", "../../etc/passwd", "/", "C:\\x", "~", "*", "<script>alert(1)</script>", "<!--",
    "{{ 7*7 }}", "{% raw %}", "</pre>", "&amp;", "é", "名前", "\U0001f480", "مرحبا", "e\u0301",
    "nan", "inf", "None", "True", "__class__", "feature", "class", "value", "prediction", "y",
    "\ue000", "\U0010ffff", "x" * 300, "0", "1e5", " ",
)  # fmt: skip


def names(seed: int, count: int) -> list[str]:
    """Distinct names of one to four pieces, some of ten thousand characters; none is a number."""
    rng, found = random.Random(seed), dict[str, None]()
    while len(found) < count:
        made = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 4)))
        made = made * (1 + 10_000 // len(made)) if rng.random() < 0.03 else made
        if sound(made):
            found[made] = None
    return list(found)


def sound(name: str) -> bool:
    """Whether a table can hold it as a name and as a label: no blanks around it, no number.

    What pandas takes for a missing value or for a truth is no label.
    """
    if not name.strip() or name != name.strip() or name in ("nan", "None", "True"):
        return False
    try:
        float(name)
    except ValueError:
        return True
    return False


def file_names(seed: int, count: int) -> list[str]:
    """The same as the names of files, without a suffix: no slash, no null, not too long."""
    found = dict[str, None]()
    for number, name in enumerate(names(seed, 4 * count)):
        stem = name.replace("/", "|").replace("\0", "").encode()[:200].decode(errors="ignore")
        stem = f"{stem}\udcff" if number % 7 == 0 else stem  # bytes that are no UTF-8
        if stem.strip(".~ ") and len(found) < count:
            found[stem] = None
    return list(found)


def visible(text: str, newline: bool = True) -> bool:
    """Whether a terminal shows a text and obeys nothing in it."""
    kinds = {unicodedata.category(c) for c in text if not (newline and c == "\n")}
    return not kinds & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
