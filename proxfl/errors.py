"""What a user gave and can mend."""


class InputError(ValueError):
    """Something is wrong with what the user gave; the message says what, and what to do."""
