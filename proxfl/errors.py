"""What can go wrong, and the exit codes of commands that say so."""

DONE = 0  # for a command that trains: converged
FAILED = 1  # an error of the program
BAD_INPUT = 2  # nothing is written
NOT_CONVERGED = 3  # the model, or the state to go on from, is written and says so
INTERRUPTED = 130


class InputError(ValueError):
    """Something is wrong with what the user gave; the message says what, and what to do."""
