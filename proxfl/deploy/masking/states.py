"""A client's states in a masked run, on its own disk, so that a reply that was lost never happened.

Each file is the state after one step. It is there before the reply leaves, until no step can start
from it any more.
"""

from pathlib import Path
from typing import Any

from proxfl.deploy.protocol.trees import rebuild
from proxfl.storage.checkpoint import named_arrays
from proxfl.storage.files import remove
from proxfl.storage.sealed import SUFFIX, read_arrays, write_arrays
from proxfl.train.federation import Call


class States:
    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, step: int) -> Path:
        return self.folder / f"state-{step}{SUFFIX}"

    def recall(self, step: int, first: Any) -> Any:
        """The client's state after a step, or before any."""
        return rebuild(read_arrays(self.path(step)), first, "The state") if step else first

    def remember(self, call: Call, state: Any) -> None:
        """Put a state on the disk, and forget those that no step can start from any more."""
        write_arrays(self.path(call.step), named_arrays(state))
        keep = {self.path(call.step), self.path(call.counted)}
        for path in set(self.folder.glob(f"state-*{SUFFIX}")) - keep:
            remove(path)
