"""A PyTorch module as a loss: the same runs as in JAX, and gradients that are PyTorch's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.prox import L1, OnLeaves
from tests import cases, literal
from tests.algorithms.runs import next_run

torch = pytest.importorskip("torch", reason="PyTorch is an extra; `make torch` installs it")

from tests.torch.modules import (  # noqa: E402
    INPUTS,
    Linear,
    entropy,
    logistic,
    network,
    network_in_jax,
    sites,
)

nn, ROUNDS = torch.nn, 3


def problem_of(module, loss=entropy, g=None, batch=None):
    g = g or OnLeaves(L1(0.02), ("*.weight",))
    return px.Problem(g, px.torch.parameters(module), px.torch.TorchLoss(module, loss), batch)


linear = problem_of(Linear(), logistic, OnLeaves(L1(0.05)))


@pytest.mark.parametrize("case", cases.algorithms, ids=lambda c: c.name)
def test_every_method_runs_and_equals_its_literal_loop(case):
    """Sites of unequal size, so that padding is at work as well."""
    gradients = [literal.logistic_gradient(a, y) for a, y in cases.sites()]
    wanted = case.literal(gradients, literal.soft(0.05), np.zeros(cases.D), ROUNDS)
    shards = px.shards_of(cases.sites())
    algorithm, problem = jax.tree.map(jnp.asarray, (case.algorithm, linear))
    run = px.start(algorithm, problem, shards)
    for expected in wanted:
        run = next_run(algorithm, problem, shards, run)
        found = algorithm.output(problem.g, run.server).params["weight"]
        np.testing.assert_allclose(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("options", [{}, {"cohort": 3, "block": 2}], ids=str)
def test_a_network_runs_as_the_same_network_in_jax(options):
    module = network()
    theirs = problem_of(module, batch=3)
    ours = px.Problem(theirs.g, theirs.x0, network_in_jax, batch=3)
    algorithm = px.DecoupledPartial(0.1, 1.2, 3)
    about = dict(rounds=6, progress=False, **options)
    found, wanted = (px.simulate(algorithm, p, sites(), **about) for p in (theirs, ours))
    for name, value in wanted.arrays().items():
        np.testing.assert_allclose(found.arrays()[name], value, atol=1e-10, rtol=0)
    for metric in ("objective", "optimality", "nonzeros"):
        np.testing.assert_allclose(found.history[metric], wanted.history[metric], rtol=1e-9)
    assert 0 < found.history["nonzeros"][-1] < px.points.size(theirs.x0)


def own_gradients(module, rows, labels):
    """By PyTorch's usual means."""
    module.zero_grad()
    entropy(module(torch.tensor(rows)), torch.tensor(labels)).mean().backward()
    return {name: p.grad.numpy().copy() for name, p in module.named_parameters()}


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
def test_values_gradients_and_curvature_are_those_of_torch(kind):
    module = network(kind)
    problem = problem_of(module)
    data = sites(kind=np.dtype(str(kind).removeprefix("torch.")))
    close = dict(rtol=0, atol=50 * torch.finfo(kind).eps)
    x, v = problem.x0, jax.tree.map(lambda a: 0 * a + 0.1, problem.x0)
    for site in data[:2]:
        shard = jax.tree.map(lambda a: a[0], px.shards_of([site], dtype=site[0].dtype))
        f, own = problem.objective(shard), own_gradients(module, *site)
        found = f.full_grad(x).params
        for name, value in own.items():
            np.testing.assert_allclose(found[name], value, **close)
            assert found[name].dtype == value.dtype
        mean = entropy(module(torch.tensor(site[0])), torch.tensor(site[1])).mean().item()
        np.testing.assert_allclose(f.value(x), mean, **close)
        step = 1e-5
        if kind == torch.float64:
            slope = jax.jvp(f.value, (x,), (v,))[1]
            np.testing.assert_allclose(slope, px.points.dot(f.full_grad(x), v), rtol=1e-12)
            curved = jax.jvp(f.full_grad, (x,), (v,))[1]
            apart = (f.full_grad(x + step * v) - f.full_grad(x - step * v)) / (2 * step)
            size = px.points.norm(curved)
            assert px.points.norm(curved - apart) <= 1e-6 * size  # a difference of second order


class Gated(nn.Module):
    """What `vmap` cannot run: a decision by the data."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, rows):
        scores = self.inner(rows)
        return scores if bool((scores.sum() < 1e9).item()) else -scores


def test_clients_one_by_one_where_vmap_cannot_equal_clients_together():
    shards = px.shards_of(sites())
    found = {}
    for name, module in {"inner.": Gated(network()), "": network()}.items():
        problem = problem_of(module)
        grad = lambda shard, x, problem=problem: problem.objective(shard).full_grad(x).params
        own = jax.jit(jax.vmap(grad, in_axes=(0, None)))(shards, problem.x0)
        both = jax.vmap(jax.vmap(grad, in_axes=(0, None)), in_axes=(None, 0))
        two = both(shards, jax.tree.map(lambda a: np.stack([a, a + 0.1]), problem.x0))
        assert problem.loss.host.together == (name == "")
        for key in own:
            np.testing.assert_allclose(two[key][0], own[key], atol=1e-14)
        found[name] = two
    for key, value in found[""].items():
        np.testing.assert_allclose(found["inner."]["inner." + key], value, atol=1e-14)


def test_frozen_and_tied_parameters_and_buffers_stay_as_they_are():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
            self.second.weight = self.first.weight
            self.norm, self.last = nn.BatchNorm1d(6), nn.Linear(6, 3)
            self.last.requires_grad_(False)

        def forward(self, rows):
            return self.last(torch.tanh(self.second(self.norm(torch.tanh(self.first(rows))))))

    torch.manual_seed(1)
    module = Tied().double().eval()
    problem = problem_of(module)
    names = {"first.weight", "first.bias", "second.bias", "norm.weight", "norm.bias"}
    assert set(problem.x0.params) == names
    before = {name: value.clone() for name, value in module.state_dict().items()}
    result = px.simulate(px.Decoupled(0.1), problem, sites(), rounds=2, progress=False, observe={})
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert result.to(module) is module
    for name, value in module.named_parameters():
        changed = not torch.equal(value, before[name])
        assert changed == (name in names), name
    assert module.first.weight is module.second.weight
    assert all(torch.equal(value, before[name]) for name, value in module.named_buffers())
    own = own_gradients(module.requires_grad_(True), *sites()[0])
    assert np.isfinite(own["first.weight"]).all()


def test_the_module_may_change_afterwards_and_the_loss_does_not():
    module = network()
    problem = problem_of(module)
    shard = jax.tree.map(lambda a: a[0], px.shards_of(sites()))
    before = problem.objective(shard).value(problem.x0)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(1.0)
    assert problem.objective(shard).value(problem.x0) == before


def test_equal_runs_give_equal_bits():
    problem = problem_of(network(), batch=3)
    again = lambda: px.simulate(px.Decoupled(0.1), problem, sites(), rounds=4, observe={})
    runs = [again(), again()]
    for name, value in runs[0].arrays().items():
        np.testing.assert_array_equal(value, runs[1].arrays()[name])


def test_several_inputs_and_bytes_reach_the_module():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(4, 3, dtype=torch.float64)

        def forward(self, places, pixels):
            assert places.dtype == torch.int64 and pixels.dtype == torch.uint8
            return self.table(places) * (pixels.double() / 255)[:, None]

    rng = np.random.default_rng(0)
    rows = [
        ((rng.integers(0, 4, 6), rng.integers(0, 256, 6, np.uint8)), rng.integers(0, 3, 6))
        for _ in range(2)
    ]
    problem = problem_of(Two(), g=OnLeaves(L1(0.0)))
    found = px.simulate(px.Decoupled(0.1), problem, rows, rounds=1, observe={}, progress=False)
    assert np.isfinite(found.arrays()["table.weight"]).all()


def test_a_module_that_changes_what_it_is_given_changes_no_row_of_the_program():
    class InPlace(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, rows):
            return self.inner(rows.mul_(2.0))

    def found(module, data):
        about = dict(rounds=3, progress=False)
        result = px.simulate(px.Decoupled(0.1, tau=3), problem_of(module), data, **about)
        return [*result.arrays().values(), result.history["objective"]]

    doubled = [(2 * rows, labels) for rows, labels in sites()]
    wanted = found(network(), doubled)
    for inner in (network(), Gated(network())):  # together, and one by one after a try
        for ours, value in zip(found(InPlace(inner), sites()), wanted, strict=True):
            np.testing.assert_allclose(ours, value, rtol=1e-13)


def test_a_device_that_this_pytorch_cannot_reach_is_told(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "which this PyTorch cannot reach; install PyTorch for CUDA" in refusal(network())


def refusal(module, loss=entropy, x0=None, data=None):
    problem = problem_of(module, loss, OnLeaves(L1(0.1)))
    problem = problem if x0 is None else px.Problem(problem.g, x0, problem.loss)
    with pytest.raises(ValueError) as told:
        px.simulate(px.Decoupled(0.1), problem, data or sites(), rounds=1)
    return str(told.value)


def test_what_is_no_loss_of_rows_is_refused_in_a_sentence():
    layer = nn.Linear(INPUTS, 3, dtype=torch.float64)
    mean = nn.CrossEntropyLoss()
    assert 'give it reduction="none"' in refusal(network(), mean)
    assert "draws random numbers" in refusal(nn.Sequential(nn.Dropout(0.5), layer))
    norm = nn.Sequential(nn.BatchNorm1d(INPUTS, dtype=torch.float64), layer)
    assert "buffer '0.running_mean' changes" in refusal(norm)
    wide = nn.Linear(INPUTS + 1, 3, dtype=torch.float64)
    assert "does not take these rows: mat1 and mat2" in refusal(wide)
    other = px.torch.parameters(wide)
    assert "'weight' has the shape (3, 7) instead of (3, 6)" in refusal(layer, x0=other)
    assert "it has no '0.bias'" in refusal(network(), x0=other)
    single = jax.tree.map(lambda a: a.astype(np.float32), px.torch.parameters(layer))
    assert "x0 is float32 and the module float64" in refusal(layer, x0=single)
    assert "rows as a pair" in refusal(layer, data=[(a, y, y) for a, y in sites()])
    tensors = [torch.utils.data.TensorDataset(*map(torch.tensor, site)) for site in sites()]
    assert "got TensorDataset; of a PyTorch dataset" in refusal(layer, data=tensors)
    for x0 in (layer.state_dict(), list(layer.parameters())):
        assert "take px.torch.parameters(module)" in refusal(layer, x0=x0)


@pytest.mark.parametrize("error", [AssertionError(), KeyError("words"), TypeError("two\nlines")])
def test_a_module_that_fails_is_told_by_what_it_said_or_by_the_kind_of_its_error(error):
    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(INPUTS, 3, dtype=torch.float64)

        def forward(self, rows):
            raise error

    wanted = {AssertionError: "AssertionError", KeyError: "KeyError: 'words'", TypeError: "two"}
    assert refusal(Failing()).endswith(f"does not take these rows: {wanted[type(error)]}")


@pytest.mark.parametrize(
    "given", [(len, entropy), (nn.Linear(2, 2), "cross_entropy")], ids=["module", "loss"]
)
def test_what_is_no_module_or_no_function_is_refused(given):
    made = object.__new__(px.torch.TorchLoss)  # tests check types before anybody else does
    for name, value in zip(("module", "loss"), given, strict=True):
        object.__setattr__(made, name, value)
    with pytest.raises(ValueError, match="needs a torch.nn.Module and a function"):
        made.__post_init__()


def test_a_module_that_cannot_be_a_point_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="held in bfloat16 and float32; hold all of them"):
        px.torch.parameters(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, dtype=torch.bfloat16)))
    with pytest.raises(ValueError, match="no parameter that requires a gradient"):
        px.torch.parameters(nn.Linear(2, 2).requires_grad_(False))
    with pytest.raises(ValueError, match="lies on cpu and meta; move it"):
        px.torch.parameters(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta")))
    with pytest.raises(ValueError, match="it has '0.bias', which the module does not train"):
        px.torch.write(network()[2], px.Tree({"weight": 0, "bias": 0, "0.bias": 0}))


def test_a_run_that_blows_up_is_told_a_step_by_the_curvature():
    squares = lambda scores, y: (scores - y) ** 2 / 2
    problem = problem_of(Linear(), squares, OnLeaves(L1(0.05)))
    with pytest.raises(px.DivergenceError, match="by the curvature at the start: try eta=") as told:
        px.simulate(px.Decoupled(1e200), problem, cases.sites(), rounds=5, observe={})
    again = px.Problem(L1(0.05), np.zeros(cases.D), px.losses.Squared())
    with pytest.raises(px.DivergenceError) as wanted:
        px.simulate(px.Decoupled(1e200), again, cases.sites(), rounds=5, observe={})
    assert str(told.value) == str(wanted.value)
