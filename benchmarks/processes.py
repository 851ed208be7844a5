"""One simulation over 1, 2 and 4 processes of this machine, against the model of docs/scale.md.

Each process holds its part of 400 clients with four rows of 2,000 numbers each. Processes share the
cores, so what is compared is each one's own processor time. Of memory and of what crosses between
processes the compiled program tells: bytes in arguments, on the way, and in sums over processes.
"""

import json
import math
import os
import re
import subprocess
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import proxfl as px
from proxfl.deploy.transport.flower.launch import free_port
from proxfl.engine.round import simulated_round, start
from proxfl.losses import Logistic
from proxfl.prox import L1

PROCESSES, CLIENTS, ROWS, FEATURES = (1, 2, 4), 400, 4, 2_000
SINGLE = "--xla_cpu_multi_thread_eigen=false"  # a process is one device with one core
BYTES = 8


def of_one(number: int, count: int, port: int, rounds: int) -> dict[str, float]:
    """What one process of several sees; medians over rounds."""
    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize(f"127.0.0.1:{port}", count, number)
    rng = np.random.default_rng(number)
    drawn = lambda: (rng.normal(size=(ROWS, FEATURES)), rng.choice([-1.0, 1.0], ROWS))
    shards = px.spread_own([drawn() for _ in range(CLIENTS // count)])
    problem = px.Problem(loss=Logistic(), g=L1(1e-4), x0=np.zeros(FEATURES))
    problem, algorithm = jax.tree.map(jnp.asarray, (problem, px.Decoupled(0.05, 1.0, 2)))
    run = start(algorithm, problem, shards)

    @jax.jit
    def several(shards, run, rounds):
        step = lambda _, run: simulated_round(algorithm, problem, shards, run)[0]
        return jax.lax.fori_loop(0, rounds, step, run)

    program = several.lower(shards, run, 1).compile()
    processor, wall = [], []
    for _ in range(rounds):
        begun = time.process_time(), time.perf_counter()
        run = jax.block_until_ready(program(shards, run, 1))
        processor.append(time.process_time() - begun[0])
        wall.append(time.perf_counter() - begun[1])
    held: Any = program.memory_analysis()
    return {
        "processor s": float(np.median(processor)),
        "wall s": float(np.median(wall)),
        "bytes held": held.argument_size_in_bytes,
        "bytes on the way": held.temp_size_in_bytes,
        "bytes summed": summed(program.as_text() or ""),
    }


def summed(program: str) -> int:
    """Bytes of all results of a program's sums over processes, by its own text."""
    results = " ".join(re.findall(r"= (.*) all-(?:reduce|gather)\(", program))
    shapes = re.findall(r"[a-z](\d+)\[([\d,]*)\]", results)
    sizes = [math.prod(map(int, filter(None, numbers.split(",")))) for _, numbers in shapes]
    return sum(int(bits) // 8 * size for (bits, _), size in zip(shapes, sizes, strict=True))


def of_all(count: int, rounds: int) -> dict[str, float]:
    """The mean over processes."""
    command = [sys.executable, "-m", "benchmarks.processes", "--rounds", str(rounds)]
    about, port = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": SINGLE}, str(free_port())
    started = [
        subprocess.Popen([*command, str(k), str(count), port], env=about, stdout=subprocess.PIPE)
        for k in range(count)
    ]
    said = [process.communicate()[0].splitlines() for process in started]
    told = [json.loads(lines[-1]) for lines in said]  # before it, Gloo says who is connected
    return {key: float(np.mean([one[key] for one in told])) for key in told[0]}


def run(rounds: int = 15) -> dict[str, Any]:
    found = {count: of_all(count, rounds) for count in PROCESSES}
    visit = found[1]["processor s"] / CLIENTS
    points = []
    for count, seen in found.items():
        own = CLIENTS // count
        model = {
            "processor s": own * visit,
            "bytes held": own * (2 * FEATURES + ROWS * FEATURES) * BYTES,
            "bytes on the way": 8 * own * FEATURES * BYTES,
            "bytes summed": FEATURES * BYTES if count > 1 else 0,
        }
        both = {f"{key}, model": value for key, value in model.items()}
        points.append({"processes": count, **dict(sorted((seen | both).items()))})
    return {
        "what": f"a round (tau = 2) of {CLIENTS} clients, dense, over processes",
        "load": os.getloadavg()[0],
        "by processes": points,
    }


if __name__ == "__main__":
    print(json.dumps(of_one(*map(int, sys.argv[3:]), int(sys.argv[2]))))
