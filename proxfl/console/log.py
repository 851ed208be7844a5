"""Loggers whose records are harmless: one line each, whatever words from outside they hold."""

import logging

from proxfl.console.words import lines, printable

FORM = logging.Formatter()


def harmless(record: logging.LogRecord) -> bool:
    """Spell out what a terminal would obey, in the message and in a traceback that goes with it."""
    record.msg, record.args = printable(record.getMessage()), ()
    if record.exc_info and not record.exc_text:
        record.exc_text = lines(FORM.formatException(record.exc_info))
    return True


def logger(name: str) -> logging.Logger:
    """The logger of that name, which writes no record that is not harmless."""
    found = logging.getLogger(name)
    found.addFilter(harmless)  # once, however often
    return found
