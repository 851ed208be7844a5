"""Whatever is lost, late, repeated or absent, the run is the one in which it never happened."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.server.federation import RemoteFederation
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.ledger import read_ledger
from proxfl.deploy.site.worker import Worker
from proxfl.deploy.transport.memory import Fate, MemorySite, MemoryTransport, undisturbed
from proxfl.engine.visit import round_key, visit
from proxfl.train.federation import Call
from tests import cases
from tests.deploy.test_equality import TwoExchanges
from tests.deploy.world import PATIENCE, SEED, World, deployed, drive, shard_of

ROUNDS = 6


def same(a, b):
    """Bit for bit."""
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


class Losing:
    """Loses the messages that go `way` to or from a site, by their number on that way."""

    def __init__(self, way, site, numbers, crash=False):
        self.way, self.site, self.numbers, self.seen = way, site, set(numbers), -1
        self.crash = crash

    def __call__(self, way, site, frame):
        self.seen += (way, site) == (self.way, self.site)
        lost = (way, site) == (self.way, self.site) and self.seen in self.numbers
        fate = undisturbed(way, site, frame)
        return fate._replace(crash=True) if lost and self.crash else Fate(()) if lost else fate


@pytest.mark.parametrize("algorithm", [px.Decoupled(0.05, 1.5, 4), TwoExchanges(0.05, 3)], ids=repr)
@pytest.mark.parametrize("way", ["down", "up"])
@pytest.mark.parametrize("lost", [[1], [2, 3], [1, 2, 3, 5, 6, 9]], ids=str)
@pytest.mark.parametrize("crash", [False, True], ids=["silent", "crashed"])
def test_a_lost_message_never_happened(algorithm, way, lost, crash, tmp_path):
    """Lost on the way down, the site computed nothing; on the way up, it did and stored it."""
    undisturbed, _ = deployed(World(tmp_path / "a", algorithm), ROUNDS)
    world = World(tmp_path / "b", algorithm)
    disturbed, federation = deployed(world, ROUNDS, Losing(way, "site-2", lost, crash))
    same(disturbed, undisturbed)
    why = "It restarted; asking it again." if crash else "It is silent; asking it again."
    faults = [(fault.site, fault.sentence) for fault in federation.ledger.faults]
    assert faults == [("site-2", why)] * len(lost)


def test_a_round_that_is_not_counted_leaves_no_trace_at_the_sites(tmp_path):
    """As when a line search takes a step back: other steps in between change nothing."""
    algorithm, problem = px.Decoupled(0.05, 1.5, 4), jax.tree.map(jnp.asarray, cases.problem())
    straight, _ = deployed(World(tmp_path / "a", algorithm, cases.problem()), 4)
    federation = World(tmp_path / "b", algorithm, cases.problem()).federation()
    server = drive(federation, algorithm, problem, 2)
    for step in (2, 3, 4):  # never counted
        federation.visit(px.Decoupled(5.0, 1.5, 4), Call(step, 1, step, 0), server + step)
    for step, counted, r in ((5, 1, 5), (6, 5, 6)):
        answers = federation.visit(algorithm, Call(step, counted, r, 0), server)
        server = algorithm.server(problem.g, server, answers.received)
    same(server, straight)


def test_a_server_that_resumes_from_its_checkpoint_ends_where_it_would_have(tmp_path):
    """Whether or not the step after the checkpoint had been asked when the server died."""
    for algorithm in (px.Decoupled(0.05, 1.5, 4), TwoExchanges(0.05, 3)):
        name, per_round = type(algorithm).__name__, len(algorithm.exchanges())
        straight, _ = deployed(World(tmp_path / name / "a", algorithm), ROUNDS)
        world = World(tmp_path / name / "b", algorithm)
        problem = jax.tree.map(jnp.asarray, world.problem)
        federation = world.federation()
        server = drive(federation, algorithm, problem, 3)
        standing = federation.standing_after(3 * per_round - 1)
        drive(federation, algorithm, problem, 4, server, start=3, step=3 * per_round)
        for epoch in (0, 1, 2):  # in the same life of the server as far as sites can tell, or not
            resumed = world.federation(standing=standing, epoch=epoch)
            half = drive(resumed, algorithm, problem, 4, server, start=3, step=3 * per_round)
        same(drive(resumed, algorithm, problem, ROUNDS, half, 4, 4 * per_round), straight)


def test_a_server_that_was_replaced_cannot_go_on_beside_the_new_one(tmp_path):
    algorithm = px.Decoupled(0.05, 1.5, 4)
    world = World(tmp_path, algorithm)
    problem = jax.tree.map(jnp.asarray, world.problem)
    old = world.federation()
    server = drive(old, algorithm, problem, 2)
    new = world.federation(standing=old.standing_after(1), epoch=7)
    slower = px.Decoupled(0.01, 1.5, 4)  # and may be told to use other steps
    drive(new, slower, problem, 4, server, start=2, step=2)
    with pytest.raises(TooFewSites, match=r"Step 2 is a replay: site site-\d has since answered"):
        drive(old, algorithm, problem, 3, server, start=2, step=2)


def test_a_server_that_forgot_two_rounds_is_refused_in_a_sentence(tmp_path):
    algorithm = px.Decoupled(0.05, 1.5, 4)
    world = World(tmp_path, algorithm)
    problem = jax.tree.map(jnp.asarray, world.problem)
    federation = world.federation()
    server = drive(federation, algorithm, problem, 2)
    standing = federation.standing_after(1)
    drive(federation, algorithm, problem, 5, server, start=2, step=2)
    with pytest.raises(TooFewSites, match=r"is a replay: site site-\d has since answered step 4"):
        drive(world.federation(standing=standing), algorithm, problem, 3, server, 2, 2)
    with pytest.raises(TooFewSites, match="no state after step 1 .it has 3, 4.; its folder"):
        drive_from(world.federation(standing=standing), algorithm, server, Call(9, 1, 9, 0))


def drive_from(federation, algorithm, server, call):
    return federation.visit(algorithm, call, server)


def partial_reference(world, present, rounds):
    """The method when only some answer, asked one client at a time."""
    algorithm, problem = world.algorithm, jax.tree.map(jnp.asarray, world.problem)
    n = len(world.sites)
    server, first = algorithm.init(problem.g, problem.x0)
    states = [first] * n
    for r in range(rounds):
        key, ups = round_key(jax.random.key(SEED), r, 0), []
        who = [i for i in range(n) if present(r, i)]
        for i in who:
            args = (algorithm, problem, shard_of(world.shards, i), states[i], server)
            reply = visit(*args, round_key(key, i))
            states[i] = reply.state
            ups.append(reply.up)
        received = cases.received(ups, [world.shards.weight[i] for i in who], round_key(key, n))
        server = algorithm.server(problem.g, server, received)
    return server


SOME = PATIENCE._replace(quorum=4)


@pytest.mark.parametrize("how", ["offline", "reply lost"])
def test_the_run_goes_on_without_a_site_and_takes_it_back(how, tmp_path):
    """Also when the site did its part and only the server never heard: it must not count it."""
    world, gone = World(tmp_path, px.DecoupledPartial(0.05, 1.5, 4)), range(2, 4)
    wanted = partial_reference(world, lambda r, i: i != 1 or r not in gone, ROUNDS)
    name = world.sites[1]

    def watch(r, server, answers):
        world.processes[name].attend(how != "offline" or r + 1 not in gone)
        assert (name in answers.sites) == (r not in gone)

    def fate(way, site, frame):
        lost = (way, site) == ("up", name) and wire.decode(frame).header.round in gone
        return Fate(()) if lost and how != "offline" else undisturbed(way, site, frame)

    server, federation = deployed(world, ROUNDS, fate, watch, patience=SOME)
    for a, b in zip(jax.tree.leaves(server), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)
    said = {fault.step: fault.sentence for fault in federation.ledger.faults}
    assert said[2] == "It did not answer; going on without it." and said[4] == "It is back."


def test_below_the_quorum_the_run_waits_then_stops_and_can_be_resumed(tmp_path):
    algorithm = px.DecoupledPartial(0.05, 1.5, 4)
    straight, _ = deployed(World(tmp_path / "a", algorithm), 4)
    world = World(tmp_path / "b", algorithm)
    problem = jax.tree.map(jnp.asarray, world.problem)
    federation = world.federation(patience=SOME)
    server = drive(federation, algorithm, problem, 2)
    standing = federation.standing_after(1)
    for name in ("site-0", "site-3"):
        world.processes[name].attend(False)
    words = r"Only 3 sites answered within 600 s where 4 are needed. Missing: site-0 .not conn"
    with pytest.raises(TooFewSites, match=words):
        drive(federation, algorithm, problem, 4, server, start=2, step=2)
    for name in ("site-0", "site-3"):
        world.processes[name].attend(True)
    same(drive(world.federation(standing=standing), algorithm, problem, 4, server, 2, 2), straight)


def test_a_method_that_needs_everyone_does_not_go_on_without_one(tmp_path):
    world = World(tmp_path, px.Decoupled(0.05, 1.5, 4))
    world.processes["site-2"].attend(False)
    with pytest.raises(TooFewSites, match=r"where 5 are needed. Missing: .*site-2 \(not connected"):
        deployed(world, 1, patience=SOME)


def test_a_round_that_overflows_reaches_the_driver_as_not_a_number_and_can_be_taken_back(tmp_path):
    algorithm, problem = px.Decoupled(0.05, 1.5, 4), cases.least_squares()
    straight, _ = deployed(World(tmp_path / "a", algorithm, problem), 3)
    federation = World(tmp_path / "b", algorithm, problem).federation()
    problem = jax.tree.map(jnp.asarray, problem)
    server = drive(federation, algorithm, problem, 2)
    wild = px.Decoupled(1e200, 1.5, 4)
    answers = federation.visit(wild, Call(2, 1, 2, 0), server)
    assert np.isnan(answers.received.mean).all() and np.isnan(answers.info["drift"])
    answers = federation.visit(algorithm, Call(3, 1, 3, 0), server)
    same(algorithm.server(problem.g, server, answers.received), straight)
    assert "overflow at the model it was sent." in federation.ledger.faults[0].sentence


def test_tasks_are_answered_by_every_site_with_points_of_any_shape(tmp_path):
    world = World(tmp_path, px.Decoupled(0.05))
    federation = world.federation()
    answers = federation.ask("evaluate", {"x": jnp.ones(cases.D)})
    assert tuple(answers) == world.sites
    for i, site in enumerate(world.sites):
        f = world.problem.objective(shard_of(world.shards, i))
        np.testing.assert_allclose(answers[site]["gradient"], f.full_grad(jnp.ones(cases.D)))
        np.testing.assert_allclose(answers[site]["value"], f.value(jnp.ones(cases.D)))
    with pytest.raises(TooFewSites, match="knows no task 'rows'"):
        federation.ask("rows", {})


def test_an_answer_to_a_task_that_has_another_shape_is_refused(tmp_path):
    """A site in error must not be averaged in, be it a gradient too long or a missing number."""
    shapes = [
        {"value": jnp.zeros(()), "gradient": jnp.zeros(cases.D + 1)},
        {"value": jnp.zeros(()), "gradient": jnp.zeros(cases.D, jnp.float32)},
        {"value": jnp.zeros(())},
    ]
    for i, wrong in enumerate(shapes):
        tasks = {"evaluate": lambda problem, shard, payload, wrong=wrong: wrong}
        world = World(tmp_path / str(i), px.Decoupled(0.05), tasks=tasks)
        with pytest.raises(TooFewSites, match="The answer (has|holds other)"):
            world.federation().ask("evaluate", {"x": jnp.zeros(cases.D)})


def test_sites_are_set_up_by_tasks_of_their_own_before_there_is_an_experiment(tmp_path):
    world, agreed = World(tmp_path, px.Decoupled(0.05)), {}

    def load():
        if not agreed:
            raise BadMessage("Site here has not agreed to anything yet.")
        return world.experiment(shard_of(world.shards, 0))

    def agree(told):
        agreed.update(told)
        return {"rows": np.int64(7), "features": "a,b", "scale": told["scale"] * 2}

    where = (world.name, world.sites[:1], world.sites[0], tmp_path / "site")
    site = MemorySite(lambda: Worker(*where, load, setup={"agree": agree}))
    transport = MemoryTransport({world.sites[0]: site})
    federation = RemoteFederation(transport, world.name, world.sites[:1], patience=SOME, epoch=1)
    with pytest.raises(TooFewSites, match="has not agreed to anything yet"):
        federation.ask("evaluate", {"x": np.zeros(cases.D)})
    answer = federation.ask("agree", {"spec": '{"loss": "logistic"}', "scale": np.ones(2)})
    assert agreed["spec"] == '{"loss": "logistic"}'
    told = answer[world.sites[0]]
    assert (told["rows"], told["features"]) == (7, "a,b")
    np.testing.assert_array_equal(told["scale"], [2.0, 2.0])


def test_a_reply_that_comes_twice_counts_once(tmp_path):
    algorithm = px.Decoupled(0.05, 1.5, 4)
    straight, _ = deployed(World(tmp_path / "a", algorithm), 3)
    twice = lambda way, site, frame: Fate(((0.0, frame), (1.0, frame)))
    doubled, federation = deployed(World(tmp_path / "b", algorithm), 3, twice)
    same(doubled, straight)
    assert federation.ledger.total("up", kind="round").messages == 15


def test_the_ledger_has_what_crossed_and_nothing_else(tmp_path):
    crossed = {"up": [0, 0, 0], "down": [0, 0, 0]}

    def fate(way, site, frame):
        held = wire.decode(frame)
        payload = wire.payload_bytes(held.payload)
        payload += wire.payload_bytes(held.settings) if way == "up" else 0  # its metrics
        sizes = (payload, len(frame), len(frame))
        crossed[way] = [old + new for old, new in zip(crossed[way], sizes, strict=True)]
        return undisturbed(way, site, frame)

    world = World(tmp_path, px.Decoupled(0.05, 1.5, 4))
    _, federation = deployed(world, 3, fate)
    for way, sizes in crossed.items():
        assert list(federation.ledger.total(way, kind="round")[1:]) == sizes


def test_the_ledger_survives_the_server(tmp_path):
    world = World(tmp_path, px.Decoupled(0.05))
    _, federation = deployed(world, 2, Losing("up", "site-0", [1]))
    kept = read_ledger(json.loads(json.dumps(federation.ledger.to_dict())))
    assert kept.books == federation.ledger.books
    assert kept.exchanges == federation.ledger.exchanges == {"round": 2}
    assert kept.total("up").messages == 10 and kept.total("down").messages == 11
    assert kept.faults == federation.ledger.faults != []
