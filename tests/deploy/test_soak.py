"""Kill -9 at random moments, of every part and of all at once: the model is the same bit for bit.

Minutes long, so it runs under `make soak` and not with the other tests. A failure prints its seed.
"""

import random
import time

import numpy as np
import pytest

from proxfl.deploy import launch
from tests.deploy.real import SITES, deployment, straight

pytestmark = pytest.mark.soak

ROUNDS = 6
WHOLE_SITE = ("worker", "supernode", "executor")


def killed(there, keeper, names):
    for name in names:
        there.service(keeper, name).kill()


def random_moment(there, rng):
    """Somewhere in a round that is neither the first nor the last."""
    there.wait_for_round(rng.randint(0, ROUNDS - 4))
    time.sleep(rng.uniform(0, 5))


def resumed(there):
    """Submit the app again, as `proxfl federate resume` does; it goes on from its checkpoint."""
    run = there.run_when_possible(rounds=ROUNDS)
    assert there.finish(run, 300) == "finished:completed", there.logs()


def check(there, folder):
    np.testing.assert_array_equal(there.state()["['server']"], straight(folder, ROUNDS))


@pytest.fixture
def rng():
    seed = random.SystemRandom().randrange(10**6)
    print("seed", seed)
    return random.Random(seed)


def test_a_site_killed_as_a_whole_comes_back_and_nothing_changes(tmp_path, rng):
    """Flower takes the site to be online for up to a minute and refuses it; its keeper insists."""
    with deployment(tmp_path) as there:
        there.start()
        run = there.run(rounds=ROUNDS)
        random_moment(there, rng)
        killed(there, rng.choice(SITES), WHOLE_SITE)
        assert there.finish(run, 300) == "finished:completed", there.logs()
        check(there, tmp_path)


def test_a_site_that_was_never_registered_by_key_also_comes_back(tmp_path, rng):
    """In the clear, a restarted site is a new node to Flower; it is known by what it says."""
    with deployment(tmp_path, secure=False) as there:
        there.start()
        run = there.run(rounds=ROUNDS)
        random_moment(there, rng)
        killed(there, rng.choice(SITES), WHOLE_SITE)
        assert there.finish(run, 300) == "finished:completed", there.logs()
        check(there, tmp_path)


def test_a_site_that_uses_flowers_own_executor_takes_part_like_the_others(tmp_path, rng):
    with deployment(tmp_path) as there:
        there.serve()
        there.register()
        there.join("north")
        there.join("south")
        there.join_plainly("west")
        assert there.finish(there.run(rounds=ROUNDS), 300) == "finished:completed", there.logs()
        check(there, tmp_path)


def test_the_superlink_killed_the_run_is_resumed_from_its_checkpoint(tmp_path, rng):
    with deployment(tmp_path) as there:
        there.start()
        there.run(rounds=ROUNDS)
        random_moment(there, rng)
        killed(there, "server", ["superlink"])
        resumed(there)
        check(there, tmp_path)


def test_the_server_app_killed_the_run_is_resumed_from_its_checkpoint(tmp_path, rng):
    with deployment(tmp_path) as there:
        there.start()
        run = there.run(rounds=ROUNDS)
        random_moment(there, rng)
        there.kill_server_app()
        launch.stop_run(there.server, run)
        resumed(there)
        check(there, tmp_path)


def test_everything_killed_at_once_and_again_the_run_is_resumed(tmp_path, rng):
    with deployment(tmp_path) as there:
        there.start()
        there.run(rounds=ROUNDS)
        for moment in (0, 2):
            there.wait_for_round(moment, 300)
            time.sleep(rng.uniform(0, 5))
            killed(there, "server", ["superlink", "gate"])
            for site in SITES:
                killed(there, site, WHOLE_SITE)
            there.look()
            if moment == 0:
                there.run_when_possible(rounds=ROUNDS)
        resumed(there)
        check(there, tmp_path)
