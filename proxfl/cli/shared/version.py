"""`proxfl --version`: which version, on which device, and what to do if a GPU is not used."""

import argparse
import logging
from pathlib import Path
from typing import Any

from proxfl import __version__
from proxfl.errors import first_line

DRIVER = Path("/proc/driver/nvidia/version")  # there where a GPU of NVIDIA's can be used


class ShowVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> None:
        import jax  # which help does not wait for

        found = jax.devices()
        print(f"proxfl {__version__}, JAX {jax.__version__}, {in_words(found)}.")
        if found[0].platform == "cpu" and DRIVER.exists():
            print("There is a GPU that this JAX cannot use: pip install 'proxfl[cuda]'.")
        parser.exit()


def in_words(devices: list[Any]) -> str:
    if devices[0].platform == "cpu":
        return "on the CPU"
    return f"on {len(devices)} x {devices[0].device_kind}"


def without_traceback(record: logging.LogRecord) -> bool:
    """What JAX logs where its support of GPUs finds none, as one line that says what follows."""
    if record.exc_info and (error := record.exc_info[1]) is not None:
        why = first_line(error).rstrip(".")
        record.msg = f"JAX finds no GPU that it can use, and computes on the CPU: {why}."
        record.args, record.exc_info = (), None
    return True
