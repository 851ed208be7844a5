"""`px.schema`: what `proxfl schema` drafts of files, drafted of data frames."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxfl.console.words import count
from proxfl.errors import InputError
from proxfl.notebook.html import block, table
from proxfl.notebook.sites import by_name
from proxfl.storage.files import write_text
from proxfl.tables.formats import InMemory
from proxfl.tables.propose import Draft, as_toml, draft, to_look_at
from proxfl.tables.schema import told


@dataclass(frozen=True, eq=False, repr=False)
class SchemaDraft(Mapping[str, dict[str, Any]]):
    """What each column is taken for, to be given to `px.fit`, and the doubts about it."""

    drafts: dict[str, Draft]
    source: str

    def __getitem__(self, name: str) -> dict[str, Any]:
        return told(self.drafts[name].column)

    def __iter__(self) -> Iterator[str]:
        return iter(self.drafts)

    def __len__(self) -> int:
        return len(self.drafts)

    @property
    def doubts(self) -> dict[str, tuple[str, ...]]:
        """What a person should look at, by column."""
        return {name: draft.doubts for name, draft in self.drafts.items() if draft.doubts}

    def save(self, where: str | os.PathLike) -> None:
        """Write the file that `proxfl schema --out` writes."""
        if Path(where).exists():
            raise InputError(f"{where}: there is such a file already; choose another name.")
        write_text(Path(where), repr(self))

    def __repr__(self) -> str:
        return as_toml(self.drafts, self.source)

    def _repr_html_(self) -> str:
        heads, rows = ["column", "kind", "to look at"], to_look_at(self.drafts)
        return block(f"Schema of {self.source}", [], [table(heads, rows, whole="print")])


def schema(sites: Any) -> SchemaDraft:
    """A schema drafted from data frames, in a dict by the names of their sites or in a list."""
    frames = [InMemory(name, frame) for name, frame in by_name(sites).items()]
    return SchemaDraft(draft(frames), count(len(frames), "data frame"))
