"""Replies show their sum and nothing else."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from proxfl.deploy.masking.members import Members
from proxfl.deploy.masking.reply import Reply, reply, total, words_in
from proxfl.deploy.masking.session import Refused
from proxfl.engine import fixed_point
from tests.deploy.masking.world import NAMES, REQUEST, world

COUNT = 5


def drawn(names=NAMES, seed=0):
    return np.random.default_rng(seed).normal(size=(len(names), COUNT)) * 10.0 ** np.arange(COUNT)


def words_of(values):
    words = np.zeros((COUNT, 2), np.uint64)
    for row in values:
        words = fixed_point.add(words, fixed_point.encode(row))
    return words


@pytest.mark.parametrize("names", [NAMES, tuple(f"site-{k:02d}" for k in range(7))])
def test_the_sum_is_that_of_the_fixed_point_numbers_bit_for_bit(names):
    here, values = world(names), drawn(names)
    found = total(here.session, here.members, REQUEST, here.replies(values), COUNT)
    assert (found == words_of(values)).all()


def test_a_reply_alone_or_with_all_but_one_other_is_not_its_numbers():
    here, values = world(), drawn()
    replies = here.replies(values)
    for i, r in enumerate(replies):
        assert fixed_point.encode(values[i]).astype("<u8").tobytes() not in r.masked
    with pytest.raises(Refused, match="one reply from each"):
        total(here.session, here.members, REQUEST, replies[:2], COUNT)


def test_another_request_has_other_pads():
    """The same numbers, asked for twice: were a pad used again, the replies would be equal."""
    here, values = world(), drawn()
    one, other = here.replies(values), here.replies(values, bytes(32))
    assert all(a.masked != b.masked for a, b in zip(one, other, strict=True))


def test_another_session_has_other_pads():
    values = drawn()
    one, other = world().replies(values), world().replies(values)
    assert all(a.masked != b.masked for a, b in zip(one, other, strict=True))


def test_asked_again_a_member_says_the_same():
    here, values = world(), drawn()
    assert here.replies(values) == here.replies(values)


@pytest.mark.parametrize("odd", [np.nan, np.inf, 2.0**81])
def test_what_cannot_be_said_is_flagged_by_nobody_knows_whom(odd):
    here, values = world(), drawn()
    usual = here.replies(values)
    values[1, 3] = odd
    replies = here.replies(values)
    assert [len(r.masked) for r in replies] == [len(r.masked) for r in usual]
    with pytest.raises(Refused, match="^1 members have set their flag") as told:
        total(here.session, here.members, REQUEST, replies, COUNT)
    assert not any(name in str(told.value) for name in NAMES)


def test_what_a_guard_stopped_leaves_no_trace_of_the_numbers():
    here, values = world(), drawn()
    replies = here.replies(values)
    signer = here.signers[NAMES[0]]
    guarded = [reply(here.sessions[0], signer, REQUEST, values[0], False) for _ in range(2)]
    # Random elsewhere: two tries differ, where the numbers under the same pads would not.
    assert guarded[0].masked != guarded[1].masked != replies[0].masked


def flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def test_a_reply_of_another_member_request_or_session_is_refused_by_name():
    here, there, values = world(), world(), drawn()
    replies = here.replies(values)
    north = replies[1]
    for wrong in (
        north._replace(masked=flipped(north.masked)),
        north._replace(signature=flipped(north.signature)),
        north._replace(signature=replies[2].signature),
        here.replies(values, bytes(32))[1],  # of another request
        Reply(1, *there.replies(values)[1][1:]),  # of another session, and another key
        north._replace(masked=north.masked + bytes(16)),
    ):
        with pytest.raises(Refused, match="north"):
            total(here.session, here.members, REQUEST, [replies[0], wrong, replies[2]], COUNT)


def test_pads_alone_make_any_inputs_of_one_sum_look_alike(monkeypatch):
    """All of Z_4 with three members, enumerated: the theorem in the small.

    Members' numbers and pads are one of four, and of their replies the last two bits are looked at.
    For every input these are, over all pads, distributed as for any other input of that sum: all
    three seen, two of them, or all three by somebody who knows one member's pads.
    """
    here, ring, drawn = world(), range(4), {}

    def pad(secret, request, one, other, count):
        assert secret == here.sessions[one].secrets[other]
        return np.full((count, 2), drawn[frozenset((one, other))], np.uint64)

    monkeypatch.setattr("proxfl.deploy.masking.reply.pad_of", pad)

    @cache
    def said(member, number, first, second):
        """By the pads that the member shares with the others, in the order of their numbers."""
        others = [i for i in range(3) if i != member]
        drawn.update(
            {frozenset((member, i)): p for i, p in zip(others, (first, second), strict=True)}
        )
        values = number * fixed_point.STEP * np.ones(1)
        made = reply(here.sessions[member], here.signers[NAMES[member]], REQUEST, values, True)
        return int(words_in(made.masked)[0, 0]) % 4

    def replies(inputs, p01, p02, p12):
        each = zip(range(3), inputs, ((p01, p02), (p01, p12), (p02, p12)), strict=True)
        return tuple(said(member, number, *pads) for member, number, pads in each)

    def seen(inputs, view):
        return sorted(view(replies(inputs, *pads), pads) for pads in product(ring, repeat=3))

    def same(view, what):
        kinds = {}
        for inputs in product(ring, repeat=3):
            kinds.setdefault(what(inputs), set()).add(tuple(seen(inputs, view)))
        return all(len(views) == 1 for views in kinds.values()) and len(kinds)

    everything = lambda replied, pads: replied
    two = lambda replied, pads: replied[:2]
    with_member_2 = lambda replied, pads: (replied, pads[1], pads[2])
    assert same(everything, sum_of := lambda inputs: sum(inputs) % 4) == 4
    assert same(two, lambda inputs: None) == 1  # without one reply, nothing at all
    assert same(with_member_2, lambda inputs: (sum_of(inputs[:2]), inputs[2])) == 16
    for inputs in product(ring, repeat=3):  # and the sum is there
        assert {sum(shown) % 4 for shown in seen(inputs, everything)} == {sum_of(inputs)}


def test_members_are_few_or_many_but_never_two():
    keys = {name: bytes([k]) * 32 for k, name in enumerate(NAMES)}
    with pytest.raises(ValueError, match="3 to 64"):
        Members.of(dict(list(keys.items())[:2]))
    with pytest.raises(ValueError, match="distinct keys"):
        Members.of(keys | {"west": keys["east"]})
    assert len(Members.of(keys).words.split()) == 12
    assert Members.of(keys).words != Members.of(keys | {"west": bytes(31) + b"w"}).words
