"""Timings side by side: every contender in turn, again and again, so that all see one machine."""

import os
import platform
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

Clock = Callable[[], float]


def seconds(call: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    begun = clock()
    call()
    return clock() - begun


@contextmanager
def within(limit: int) -> Iterator[None]:
    """Raises `TimeoutError` in the main thread after so many seconds."""

    def late(*_: object) -> None:
        raise TimeoutError(f"it took longer than {limit} seconds.")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(limit)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def interleaved(
    calls: Mapping[str, Callable[[], object]],
    repeats: int,
    work: float = 1,
    clock: Clock = time.perf_counter,
) -> dict[str, Any]:
    """Median seconds per unit of work, with quartiles, and how much slower than the first.

    By `time.process_time` they are a processor's, which a busy machine changes little.
    """
    times = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call, clock) / work)
    ours = np.array(next(iter(times.values())))
    return {name: summary(np.array(taken), ours) for name, taken in times.items()}


def summary(taken: np.ndarray, ours: np.ndarray) -> dict[str, float]:
    low, middle, high = np.quantile(taken, [0.25, 0.5, 0.75])
    return {
        "seconds": float(middle),
        "quartiles": [float(low), float(high)],
        "times_ours": float(np.median(taken / ours)),
    }


def machine() -> dict[str, Any]:
    device = jax.devices()[0]
    return {
        "cores": os.cpu_count(),
        "processor": processor(),
        "device": f"{device.platform} {device.device_kind}",
        "jax": jax.__version__,
        "python": platform.python_version(),
    }


def processor() -> str:
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
