"""A hook of MkDocs: SECURITY.md as a page of the site, its links as they are from there."""

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LINE = '--8<-- "SECURITY.md"'


def on_page_markdown(markdown: str, **_) -> str:
    if LINE not in markdown:
        return markdown
    return markdown.replace(LINE, (ROOT / "SECURITY.md").read_text().replace("](docs/", "]("))
