"""What crosses the network in a round, in vectors of the model's size and single numbers."""

import pytest

import proxfl as px
from proxfl.algorithms import REGISTRY
from proxfl.engine.messages import message_bytes, messages, one_of
from tests import cases

VECTOR, NUMBER, COUNT = cases.D * 8, 8, 4  # bytes in float64; a count has 32 bits

# By method: up and down, as the papers say.
SIZES = {
    "decoupled": (px.Decoupled(0.1), VECTOR, VECTOR),
    "decoupled-partial": (px.DecoupledPartial(0.1), VECTOR, 2 * VECTOR),
    "as-printed": (px.AsPrinted(0.1), VECTOR, VECTOR),
    "coupled": (px.Coupled(0.1), VECTOR, VECTOR),
    "fedavg": (px.FedAvg(0.1), VECTOR, VECTOR),
    "fedmid": (px.FedMid(0.1), VECTOR, VECTOR),
    "fedda": (px.FedDA(0.1), VECTOR, VECTOR + NUMBER),
    "fast-fedda": (px.FastFedDA(0.1, 20.0), 2 * VECTOR, 2 * VECTOR + NUMBER),
    "fedprox": (px.FedProx(0.1), VECTOR, VECTOR),
    "fedmspp": (px.FedMSPP(0.4, 0.1), VECTOR, VECTOR),
    "scaffold": (px.Scaffold(0.1), 2 * VECTOR, 2 * VECTOR),
    "mime": (px.Mime(0.1), 2 * VECTOR, 2 * VECTOR),
    "mimelite": (px.MimeLite(0.1), 2 * VECTOR, 2 * VECTOR),
    "fedsplit": (px.FedSplit(0.4, 0.1), VECTOR, VECTOR),
    "fedpd": (px.FedPD(0.4, 0.1), VECTOR, VECTOR + COUNT),
    "feddr": (px.FedDR(0.4, 0.1), VECTOR, VECTOR),
    "fedadmm": (px.FedADMM(0.4, 0.1), VECTOR, VECTOR),
    "proxskip": (px.ProxSkip(0.1), VECTOR, VECTOR),
    "proxskip of random length": (px.ProxSkip(0.1, 2, "geometric"), VECTOR, VECTOR + COUNT),
    "dp-spider": (px.DPSpider(0.1, 1.0, 1.0, 1.0), VECTOR, 2 * VECTOR + NUMBER),
    "proximal-gradient": (px.ProximalGradient(0.1), VECTOR, VECTOR),
    "adaptive": (px.Adaptive(0.1), VECTOR, VECTOR),
}


def test_no_method_is_left_out():
    assert SIZES.keys() >= REGISTRY.keys()
    assert {type(algorithm) for algorithm, _, _ in SIZES.values()} == set(REGISTRY.values())


@pytest.mark.parametrize("name", SIZES)
def test_messages_are_as_large_as_the_papers_say(name):
    algorithm, up, down = SIZES[name]
    traced = messages(algorithm, cases.problem(), one_of(px.shards_of(cases.sites())))
    assert message_bytes([exchange.up for exchange in traced]) == up
    assert message_bytes([exchange.down for exchange in traced]) == down


def test_mime_takes_two_exchanges_and_mimelite_one():
    assert len(px.Mime(0.1).exchanges()) == 2
    assert len(px.MimeLite(0.1).exchanges()) == 1
