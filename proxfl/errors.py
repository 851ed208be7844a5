"""What can go wrong, and the exit codes of commands that say so."""

DONE = 0  # for a command that trains: converged
FAILED = 1  # an error of the program
BAD_INPUT = 2  # nothing is written
NOT_CONVERGED = 3  # the model, or the state to go on from, is written and says so
DISK = 4  # the disk is full, read-only or broken; what was on it is whole, and a run can go on
INTERRUPTED = 130
UNREAD = 141  # whoever read the output has enough, as `head` has


class InputError(ValueError):
    """Something is wrong with what the user gave; the message says what, and what to do."""


class DamageError(InputError):
    """A file is not as it was written; the message names it."""


class DiskError(OSError):
    """The disk takes no more; the message names the file and says what to do."""


def first_line(error: BaseException) -> str:
    """What an error of others' code says, and of which kind it is where that is all it tells."""
    words = str(error).strip().splitlines()
    telling = words and not isinstance(error, LookupError)  # which says a key, and no more
    return words[0] if telling else ": ".join([type(error).__name__, *words[:1]])
