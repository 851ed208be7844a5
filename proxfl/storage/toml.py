"""TOML files that people write."""

import tomllib
from pathlib import Path
from typing import Any

from proxfl.errors import InputError


def read_toml(path: Path, what: str = "file") -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"{path}: the {what} cannot be read; check the name.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: the text is not UTF-8; save it so.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path}: this is not TOML: {error}; correct that line.") from None
