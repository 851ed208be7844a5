"""The lives of a server, counted on its disk: no clock says which of two came later."""

from collections.abc import Iterable
from pathlib import Path

from proxfl.deploy.protocol.wire import LAST_EPOCH, epoch
from proxfl.errors import InputError
from proxfl.storage.files import write_text


def next_epoch(path: Path, standing: Iterable[int] = ()) -> int:
    """The number of the life that begins now, in the file before anybody hears of it.

    It is above that of all lives before, those in `standing`, a checkpoint's last counted steps,
    included: so a run goes on also where the file was lost.
    """
    now = max([kept(path), *map(epoch, standing)]) + 1
    if now > LAST_EPOCH:
        raise InputError(f"{path} counts more lives than there can be; correct the number in it.")
    write_text(path, f"{now}\n")
    return now


def kept(path: Path) -> int:
    try:
        found = path.read_bytes()[:20].strip()
    except FileNotFoundError:
        return 0
    if not found.isdigit():
        raise InputError(
            f"{path}: this is no number of lives; remove it, and if sites then refuse the server, "
            "write the number that they name into it."
        )
    return int(found)
