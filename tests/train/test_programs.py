"""What training waits for on small data: the programs it compiles, and what it imports."""

import logging
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from proxfl.precision import precision
from proxfl.tables import Table
from proxfl.train.path import ready
from proxfl.train.spec import Spec
from proxfl.train.train import train
from proxfl.train.walk import solve

ROWS, FEATURES = (23, 19), 7  # of this file alone, so that nothing is compiled before


def tables():
    rng = np.random.default_rng(0)
    names = tuple(f"x{j}" for j in range(FEATURES))
    for i, rows in enumerate(ROWS):
        A = rng.normal(size=(rows, FEATURES))
        y = np.sign(A[:, 0] + rng.normal(size=rows))
        yield Table(f"s{i}", "", "y", names, A, y, "")


@pytest.mark.parametrize("intercept", [True, False])
def test_a_certified_model_takes_whole_steps_and_no_single_operations(intercept, caplog):
    """Each operation outside of a program is one itself, compiled for every shape it meets."""
    spec = Spec(target="y", loss="logistic", l1=0.01, intercept=intercept)
    with caplog.at_level(logging.WARNING, "jax"), jax.log_compiles():
        fit = train(spec, list(tables()))
    assert fit.solution.converged
    compiled = set(names_of_programs(caplog))
    assert "learn" in compiled
    of_jax = {name for name in compiled if hasattr(jnp, name) or hasattr(jax.lax, name)}
    assert of_jax <= {"conjugate"}  # what sites are asked has that name too


def names_of_programs(caplog):
    messages = [record.getMessage() for record in caplog.records]
    began = [message for message in messages if message.startswith("Compiling jit(")]
    return [message.split("jit(")[1].split(")")[0] for message in began]


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_with_the_rows_at_hand_all_exchanges_are_one_program(loss, caplog):
    """Also those of a loss whose Hessian is asked for once."""
    spec = Spec(target="y", loss=loss, l1=0.01)
    with precision(np.float64):
        sites = ready(spec, list(tables()))
        with caplog.at_level(logging.WARNING, "jax"), jax.log_compiles():
            found, exchanges = solve(sites, spec)
    assert found.converged and exchanges > 1
    assert names_of_programs(caplog).count("exchanges") == 1


def test_training_and_its_report_wait_for_no_part_of_scipy_but_sparse_arrays():
    code = (
        "import sys, proxfl.cli.commands.train, proxfl.report.training\n"
        "parts = {'special', 'optimize', 'interpolate', 'stats', 'linalg'}\n"
        "found = {part for part in parts if 'scipy.' + part in sys.modules}\n"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True)
