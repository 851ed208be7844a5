"""The file in which a site's owner sets its rules.

policy.toml   in the site's folder, written with the usual values when it first joins
"""

import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from proxfl.deploy.site.audit import FILE as AUDIT
from proxfl.deploy.site.policy import RULES, Policy
from proxfl.errors import InputError
from proxfl.options import Option
from proxfl.storage.documents import read_bytes
from proxfl.storage.files import write_text
from proxfl.storage.toml import parsed

POLICY = "policy.toml"
WORDS = """\
# What this site will not do, whoever asks. It is the site owner's to change; docs/deploy.md says
# what each rule is for. A change holds from the next question on.

"""


def policy_in(folder: Path) -> Policy:
    """That of a site's folder: all rules, since one that was lost may have been strict."""
    path = folder / POLICY
    data = read_bytes(path, "restore it")
    try:
        held = parsed(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        raise InputError(f"{path}: this is not TOML; mend it, or restore it.") from None
    try:
        found = Policy(**held)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for rule in RULES:
        if rule.option.key not in held:
            usual = line_of(rule.option, Policy()).strip()
            raise InputError(
                f"{path}: the rule {rule.option.key!r} is missing; restore the file, or add a line "
                f"for it, which is usually {usual}."
            )
    return found


def write_policy(folder: Path, **other: Any) -> None:
    """Put rules where the site's owner can change them, unless some are there; the usual ones."""
    path, held = folder / POLICY, Policy(**other)
    if path.exists():
        return
    if (folder / AUDIT).exists():
        raise InputError(
            f"{path}: there is no such file, and this site has answered by its rules; restore it, "
            "or copy the usual one of a site that has just joined."
        )
    one = lambda option: f"# {option.meaning}\n{line_of(option, held)}"
    write_text(path, WORDS + "\n".join(one(rule.option) for rule in RULES))


def line_of(option: Option, held: Policy) -> str:
    """A rule as the file has it."""
    return tomli_w.dumps({option.key: held.to_dict()[option.key]})
