"""A hook of MkDocs: the TeX of a page becomes MathML, which browsers set without any script."""

import html
import re

from latex2mathml.converter import convert

# As pymdownx.arithmatex leaves it: \(...\) in a line, \[...\] on lines of its own.
TEX = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def on_page_content(content: str, **_) -> str:
    return TEX.sub(typeset, content)


def typeset(found: re.Match) -> str:
    tex = html.unescape(found["tex"]).strip()
    if found["tag"] == "span":
        return convert(tex)
    return f'<div class="formula">{convert(tex, display="block")}</div>'  # which may scroll
