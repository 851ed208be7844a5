"""A message arrives as it was sent or is refused in a sentence; there is nothing in between."""

import itertools
import json
import random
import struct
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import proxfl as px
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.trees import rebuild
from proxfl.deploy.protocol.wire import DIGEST, HEADER, BadMessage, Header
from proxfl.deploy.server.federation import settings_of
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.transport.memory import undisturbed
from proxfl.storage.checkpoint import named_arrays
from proxfl.train.federation import Call
from tests import cases
from tests.deploy.world import World, deployed
from tests.outcomes import soak

TAG = wire.tag("test")
HERE = Header(wire.UPLINK, TAG, 2, step=7, counted=6, round=5, exchange=1)
SETTINGS = {"drift": np.asarray(0.25)}
PAYLOAD = {"x": np.linspace(-1, 1, 6), "n": np.arange(3, dtype=np.int32), "why": "größer"}
FRAME = wire.encode(HERE, SETTINGS, PAYLOAD)


def sealed(body):
    """A body, however wrong, under a digest that fits it."""
    return bytes(body) + wire.digest(bytes(body))


def values():
    kinds = [np.dtype(code) for code in "?bBhHiIlLefd"]
    shapes = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)

    def of(kind):
        elements = st.floats(width=8 * kind.itemsize, allow_nan=False, allow_infinity=False)
        return arrays.arrays(kind, shapes, elements=elements if kind.kind == "f" else None)

    return st.one_of(st.sampled_from(kinds).flatmap(of), st.text(max_size=20))


names = st.dictionaries(st.text(max_size=20), values())


@given(settings=names, payload=names, step=st.integers(0, 2**62), site=st.integers(0, 2**32 - 1))
def test_what_was_sent_arrives_bit_for_bit(settings, payload, step, site):
    header = Header(wire.TASK, TAG, site, step, -1, step, 3)
    frame = wire.decode(wire.encode(header, settings, payload))
    assert frame.header == header
    for sent, came in ((settings, frame.settings), (payload, frame.payload)):
        assert sent.keys() == came.keys()
        for name, value in sent.items():
            if isinstance(value, str):
                assert came[name] == value
            else:
                assert (came[name].dtype, came[name].shape) == (value.dtype, value.shape)
                assert came[name].tobytes() == value.tobytes()


def test_the_header_is_small_and_of_fixed_size():
    assert HEADER.size == 72
    empty = wire.encode(HERE, {}, {})
    assert len(empty) == HEADER.size + 16 + DIGEST
    vector = wire.encode(HERE, {}, {"value": np.zeros(1000)})
    assert len(vector) - 8000 <= 190


def with_field(offset, form, value):
    body = bytearray(FRAME[:-DIGEST])
    struct.pack_into(form, body, offset, value)
    return sealed(body)


def with_payload(**payload):
    return wire.encode(HERE, SETTINGS, PAYLOAD | payload)


def with_table(table, data=b""):
    """A message whose table of names, types and shapes says what it likes."""
    table = table.encode() if isinstance(table, str) else json.dumps(table).encode()
    return sealed(FRAME[: HEADER.size] + struct.pack("<Q", len(table)) + table + data)


def slot(shape, start, stop, kind="F64"):
    return {"dtype": kind, "shape": shape, "data_offsets": [start, stop]}


ONE = json.dumps(slot([1], 0, 8))
X = "payload/array/x"
CANNOT = "arrays cannot be read"


@pytest.mark.parametrize(
    "frame, sentence",
    [
        (b"", "has 0 bytes, too few for a header: truncated"),
        (FRAME[:-1], "digest does not fit its bytes: truncated or altered"),
        (FRAME[: len(FRAME) // 2], "digest does not fit its bytes: truncated or altered"),
        (FRAME + b"\0", "digest does not fit its bytes"),
        (bytes(2**20), "does not start like one of ProxFL's"),
        (with_field(4, "<H", 9), "speaks protocol 9, this side speaks 3"),
        (with_field(6, "<H", 77), "unknown kind 77"),
        (with_field(44, "<q", -3), "claims step -3"),
        (with_field(52, "<q", 7), "claims step 7 and round 5 after step 7, which no run can reach"),
        (with_field(72, "<Q", 2**40), "table has 1099511627776 bytes, 4194304 are allowed"),
        (with_field(72, "<Q", 10**6), f"{CANNOT}.*header"),
        (with_field(72, "<Q", 9), f"{CANNOT}.*JSON"),
        (with_payload(x=np.array([0.0, np.nan])), "array 'x' holds NaN or Inf"),
        (with_payload(x=np.array([-np.inf])), "array 'x' holds NaN or Inf"),
        (sealed(FRAME[:-DIGEST] + b"\0"), f"{CANNOT}.*not fully covered"),
        (sealed(FRAME[: -DIGEST - 1]), CANNOT),
        (sealed(FRAME[: HEADER.size]), f"{CANNOT}.*too small"),
        (with_table(f'{{"{X}": {ONE}, "{X}": {ONE}}}', bytes(8)), "two have the same name"),
        (with_table(f'{{"{X}": {ONE}, "payload\\/array\\/x": {ONE}}}', bytes(8)), "the same name"),
        (
            with_table({X: slot([1], 0, 8), "payload/text/x": slot([1], 8, 9, "U8")}, bytes(9)),
            "holds 'x' twice",
        ),
        (with_table({X: slot([1], 0, 8), "payload/array/y": slot([1], 0, 8)}, bytes(8)), CANNOT),
        (with_table({X: slot([1], 8, 16)}, bytes(16)), CANNOT),
        (with_table({X: slot([2], 0, 8)}, bytes(8)), CANNOT),
        (with_table({X: slot([2**63, 4], 0, 0)}), f"{CANNOT}.*overflow"),
        (with_table({X: slot([0, 2**63], 0, 0)}), CANNOT),
        (with_table({X: slot([-1], 0, 0)}), CANNOT),
        (with_table({X: slot([1] * 100, 0, 8)}, bytes(8)), CANNOT),
        (with_table({X: slot([1], 0, 2, "BF16")}, bytes(2)), CANNOT),
        (with_table({X: slot([2], 0, 1, "F4")}, bytes(1)), CANNOT),
        (with_table({X: slot([1], 0, 8, "C64")}, bytes(8)), "type complex64, which is not sent"),
        (with_table({X: slot([1], 0, 1, "BOOL")}, b"\2"), "truth values other than 0 and 1"),
        (with_table({"x": slot([1], 0, 8)}, bytes(8)), "array 'x' has no place in a message"),
        (with_table({"payload/x": slot([1], 0, 8)}, bytes(8)), "'payload/x' has no place"),
        (with_table({"other/array/x": slot([1], 0, 8)}, bytes(8)), "has no place"),
        (with_table({X * 40: slot([1], 0, 8)}, bytes(8)), "has no place"),
        (
            with_table({"payload/text/x": slot([1], 0, 1, "U8")}, b"\xff"),
            "'x' in .* not UTF-8",
        ),
        (with_table({"payload/text/x": slot([1], 0, 8)}, bytes(8)), "not UTF-8"),
        (with_table({"payload/text/x": slot([1, 1], 0, 1, "U8")}, b"a"), "not UTF-8"),
        (with_table("[" * 10**5), CANNOT),
        (with_table('{"a":' * 10**5), CANNOT),
        (with_table(f'{{"{X}": {{"n": 1{"0" * 5000}, {ONE[1:]}}}', bytes(8)), CANNOT),
        (with_table(f'{{"\\ud800": {ONE}}}', bytes(8)), CANNOT),
        (with_table("null"), CANNOT),
        (with_table(""), CANNOT),
    ],
)
def test_a_broken_message_is_refused_in_a_sentence(frame, sentence):
    with pytest.raises(BadMessage, match=sentence) as caught:
        wire.decode(frame)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_message_larger_than_allowed_is_refused_unread(monkeypatch):
    monkeypatch.setattr(wire, "LARGEST", 100)
    with pytest.raises(BadMessage, match="more than the 100 allowed"):
        wire.decode(FRAME)


def test_arrays_that_do_not_fit_the_traced_shape_are_refused():
    like = {"a": jax.ShapeDtypeStruct((3,), jnp.float64), "b": jax.ShapeDtypeStruct((), jnp.int32)}
    good = {"['a']": np.zeros(3), "['b']": np.zeros((), np.int32)}
    rebuild(good, like, "It")
    for wrong, sentence in [
        ({"['a']": np.zeros(4)}, r"It has \"\['a'\]\" as float64\[4\], expected float64\[3\]"),
        ({"['a']": np.zeros((3, 1))}, r"as float64\[3, 1\], expected float64\[3\]"),
        ({"['a']": np.zeros(3, np.float32)}, r"as float32\[3\], expected float64\[3\]"),
        ({"['b']": np.zeros((), np.int64)}, r"as int64\[\], expected int32\[\]"),
        ({"['a']": "three"}, "as text, expected float64"),
        ({"c": np.zeros(3)}, "holds other leaves than expected: 'c' differ"),
    ]:
        with pytest.raises(BadMessage, match=sentence):
            rebuild(good | wrong, like, "It")


def test_a_sentence_about_a_message_is_short_and_harmless_whatever_is_in_it():
    like = {"a": jax.ShapeDtypeStruct((3,), jnp.float64)}
    for name in ("x" * 10**6, "\x1b[2J", "a\nb"):
        with pytest.raises(BadMessage) as caught:
            rebuild({name: np.zeros(1)}, like, "It")
        assert len(str(caught.value)) <= 1000 and str(caught.value).isprintable()


def spoiled(change, rounds=(2,)):
    """Lets a site's uplink be changed in some rounds, once each, as a broken site might."""
    left = set(rounds)

    def fate(way, site, frame):
        if (way, site) == ("up", "site-1") and wire.decode(frame).header.round in left:
            left.discard(wire.decode(frame).header.round)
            frame = change(frame)
        return undisturbed(way, site, frame)

    return fate


def altered(**fields):
    def change(data):
        frame = wire.decode(data)
        return wire.encode(frame.header._replace(**fields), frame.settings, frame.payload)

    return change


def refilled(make):
    def change(data):
        frame = wire.decode(data)
        return wire.encode(frame.header, frame.settings, make(frame.payload))

    return change


kept = {}


def earlier(data):
    """The uplink of round 1, sent again in round 2."""
    frame = wire.decode(data)
    kept.setdefault(frame.header.round, data)
    return kept[1]


@pytest.mark.parametrize(
    "change, sentence",
    [
        (altered(round=1), "Site site-1 answered for round 1, but was asked for 2."),
        (altered(step=9, counted=8), "Site site-1 answered for step 9, but was asked for 2."),
        (altered(site=3), "Site site-1 answered for site 3, but was asked for 1."),
        (altered(experiment=bytes(16)), "Site site-1 answered for experiment 00000000"),
        (altered(exchange=1), "answered for exchange 1, but was asked for 0"),
        (altered(kind=wire.ANSWER), "kind 5 came where 2 was due"),
        (earlier, "Site site-1 answered for step 1, but was asked for 2."),
        (refilled(lambda p: {n: v[:-1] for n, v in p.items()}), r"as float64\[5\], expected"),
        (refilled(lambda p: {n: v.astype("f4") for n, v in p.items()}), "as float32"),
        (refilled(lambda p: p | {"more": np.zeros(1)}), "holds other leaves than expected"),
        (refilled(lambda p: {n: v * np.nan for n, v in p.items()}), "holds NaN or Inf"),
        (refilled(lambda p: {n: v / 0 for n, v in p.items()}), "holds NaN or Inf"),
        (lambda data: data[:-20], "digest does not fit its bytes: truncated"),
        (lambda data: b"", "too few for a header"),
        (lambda data: bytes(wire.LARGEST + 1), "more than the 268435456 allowed"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_bad_reply_is_logged_and_not_averaged_and_the_run_goes_on(change, sentence, tmp_path):
    algorithm = px.Decoupled(0.05, 1.5, 4)
    kept.clear()
    good, _ = deployed(World(tmp_path / "good", algorithm), 4)
    bad_rounds = (1, 2) if change is earlier else (2,)
    server, federation = deployed(
        World(tmp_path / "bad", algorithm), 4, spoiled(change, bad_rounds)
    )
    np.testing.assert_array_equal(server, good)
    (fault,) = federation.ledger.faults
    assert (fault.site, fault.step) == ("site-1", 2)
    with pytest.raises(BadMessage, match=sentence):
        raise BadMessage(fault.sentence)


def test_a_site_that_goes_on_sending_nonsense_ends_the_run_with_its_fault_named(tmp_path):
    nonsense = lambda way, site, frame: undisturbed(
        way, site, b"nonsense" if (way, site) == ("up", "site-1") else frame
    )
    with pytest.raises(TooFewSites, match="site-1 .The message has 8 bytes, too few"):
        deployed(World(tmp_path, px.Decoupled(0.05)), 1, nonsense)


def ask(world, frame):
    """What a site says to a message: the refusal's words, or the frame."""
    answer = wire.decode(world.worker(1).answer(frame))
    if answer.header.kind == wire.REFUSAL:
        raise BadMessage(str(answer.payload["reason"]))
    return answer


def test_a_site_refuses_bad_requests_and_computes_nothing(tmp_path):
    world = World(tmp_path, px.Decoupled(0.05, 1.5, 4))
    federation = world.federation()
    call = Call(0, -1, 0, 0)
    settings = settings_of(world.algorithm, world.algorithm)
    header = federation.headers(call)[1]

    def visit(payload=None, setting=None, **fields):
        payload = {"value": np.zeros(cases.D)} if payload is None else payload
        return wire.encode(header._replace(**fields), settings | (setting or {}), payload)

    for frame, sentence in [
        (visit(site=0), "message for site number 0 reached site-1"),
        (visit(site=wire.ANY_SITE), "message for site number 4294967295 reached site-1"),
        (visit(experiment=wire.tag("other")), "takes part in test, not in another"),
        (visit(exchange=1), "no exchange number 1"),
        (visit(kind=wire.UPLINK), "A site is not asked messages of kind 2"),
        (visit(kind=wire.STATE), "A site is not asked messages of kind"),
        (visit({"value": np.zeros(cases.D + 1)}), r"as float64\[7\], expected float64\[6\]"),
        (visit({"value": np.zeros(cases.D, np.int64)}), "as int64"),
        (visit({}), "holds other leaves than expected"),
        (visit({"value": np.full(cases.D, np.inf)}), "NaN or Inf"),
        (visit(setting={".eta": np.asarray(-1.0)}), "eta must be positive"),
        (visit(setting={".eta": np.asarray(np.nan)}), "NaN or Inf"),
        (visit(setting={".extra": np.asarray(1.0)}), "The settings holds other leaves"),
        (visit(setting={"method": "Another"}), "The server runs Another, this site is set up for"),
        (visit(step=5, counted=4), "no state after step 4"),
        (visit()[:-3], "truncated"),
    ]:
        with pytest.raises(BadMessage, match=sentence):
            ask(world, frame)
    assert not list(tmp_path.rglob("*.step"))
    assert ask(world, visit()).header.kind == wire.UPLINK


def test_what_goes_wrong_inside_a_site_stays_there(tmp_path):
    def leaky(problem, shard, payload):
        raise ValueError("patient 4711 has a negative age")

    world = World(tmp_path, px.Decoupled(0.05), tasks={"leaky": leaky})
    with pytest.raises(TooFewSites) as caught:
        world.federation().ask("leaky", {"x": jnp.zeros(cases.D)})
    assert "failed with ValueError; its log says why." in str(caught.value)
    assert "4711" not in str(caught.value)
    with pytest.raises(TooFewSites, match="'leaky' is about a model, and none came with it"):
        world.federation().ask("leaky", {})


def mutants(seeds, rng):
    """Messages with bytes flipped, cut, doubled, swapped, spliced; most under a fitting digest."""
    while True:
        body = bytearray(rng.choice(seeds)[:-DIGEST])
        for _ in range(rng.randint(1, 3)):
            at, to = sorted((rng.randint(0, len(body)), rng.randint(0, len(body))))
            match rng.randrange(6):
                case 0:
                    body[min(at, len(body) - 1)] ^= 1 << rng.randrange(8)
                case 1:
                    del body[at : min(to, at + 9)]
                case 2:
                    body[at:at] = body[at : min(to, at + 9)]
                case 3:
                    body[at:to] = rng.randbytes(min(to - at, 9))
                case 4:
                    word = rng.choice((0, 1, 2**31, 2**63 - 1, 2**64 - 1))
                    body[at : at + 8] = struct.pack("<Q", word)
                case 5:
                    body[at:] = rng.choice(seeds)[at:-DIGEST]
            body = body or bytearray(1)
        yield sealed(body) if rng.randrange(4) else bytes(body) + rng.randbytes(DIGEST)


def heard(number, seed):
    """Of so many mutants, how many are accepted, and how many then fit what was expected.

    Whatever is accepted says what its bytes say: each byte of its arrays is in one value.
    """
    like = {"x": np.zeros(6), "n": np.zeros(3, np.int32)}
    arrays_only = {name: PAYLOAD[name] for name in like}
    seeds = [
        FRAME,
        wire.encode(HERE, SETTINGS, named_arrays(like)),
        wire.encode(HERE._replace(kind=wire.TASK), {"task": "evaluate"}, arrays_only),
        wire.refusal(HERE, "No."),
        wire.encode(HERE, {}, {"flags": np.array([True, False]), "half": np.ones(2, np.float16)}),
    ]
    accepted, fitted = 0, 0
    for mutant in itertools.islice(mutants(seeds, random.Random(seed)), number):
        try:
            frame = wire.decode(mutant)
        except BadMessage:
            continue
        accepted += 1
        again = wire.encode(*frame[:3])
        assert again[: HEADER.size] == mutant[: HEADER.size]
        assert wire.encode(*wire.decode(again)[:3]) == again
        (table,) = struct.unpack_from("<Q", mutant, HEADER.size)
        data = mutant[HEADER.size + 8 + table : -DIGEST]
        values = [*frame.settings.values(), *frame.payload.values()]
        pieces = [v.encode() if isinstance(v, str) else v.tobytes() for v in values]
        assert sum(map(len, pieces)) == len(data) and all(piece in data for piece in pieces)
        for value in values:
            if not isinstance(value, str) and value.dtype.kind == "f":
                assert np.isfinite(value).all()
        try:
            fit = rebuild(frame.payload, like, "It")
        except BadMessage:
            continue
        fitted += 1
        x, n = fit["x"], fit["n"]
        assert (x.shape, x.dtype, n.shape, n.dtype) == ((6,), np.float64, (3,), np.int32)
    return accepted, fitted


def test_no_mutated_message_crashes_the_decoder_or_is_taken_for_what_it_is_not():
    accepted, fitted = heard(20_000, 0)
    assert accepted > 1000 and fitted > 100  # the digest does not hide the rest from the test


@pytest.mark.soak
def test_no_mutated_message_of_a_million_does():
    def run(seeds):
        accepted, fitted = heard(each := 20_000, seeds[0])
        return Counter(messages=each, refused=each - accepted, accepted=accepted, fitting=fitted)

    soak("frames", range(1, 51), 1, run)
