"""What data depend on, kept beside them: a folder holds data of one kind."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxfl.errors import InputError
from proxfl.storage.files import write_text


def keep(path: Path, settings: Mapping[str, Any], made: bool = False) -> None:
    """Write the settings of a folder that is begun; refuse to go on with others, or unknown ones.

    `made`: there are data already, so that settings must be there too.
    """
    text = json.dumps(settings, indent=1) + "\n"
    if not made and not path.is_file():
        write_text(path, text)
    elif not path.is_file() or path.read_text() != text:
        raise InputError(
            f"{path.parent} holds runs of other settings (see {path.name}); use another folder."
        )
