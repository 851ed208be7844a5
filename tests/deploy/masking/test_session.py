"""What a member refuses before it shares a secret with anybody."""

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from proxfl.deploy.masking.reply import pad_of
from proxfl.deploy.masking.session import FIELD, Refused, greet, open_session
from tests.deploy.masking.world import REQUEST, STUDY, world


@pytest.fixture(scope="module")
def here():
    return world()


def signed(here, hello):
    """The hello as its own member would have signed it."""
    name = here.members.each[hello.number].name
    return hello._replace(signature=here.signers[name].sign(hello.content))


def with_second(here, **changes):
    """All hellos, that of member 1 changed and signed by it."""
    hellos = [own.hello for own in here.ephemerals]
    hellos[1] = signed(here, hellos[1]._replace(**changes))
    return hellos


def refused(here, hellos, known=b"", last=0):
    with pytest.raises(Refused) as told:
        open_session(here.ephemerals[0], here.members, hellos, known, last)
    return str(told.value)


def test_all_members_share_one_session_and_each_pair_one_secret(here):
    assert len({session.digest for session in here.sessions}) == 1
    for i, one in enumerate(here.sessions):
        for j, secret in one.secrets.items():
            assert here.sessions[j].secrets[i] == secret
    assert len({secret for s in here.sessions for secret in s.secrets.values()}) == 3


def test_every_hello_changes_the_session(here):
    again = greet(here.signers["south"], here.members, "south", STUDY, bytes(32), 0).hello
    hellos = [*(own.hello for own in here.ephemerals[:2]), again]
    other = open_session(here.ephemerals[0], here.members, hellos, b"", 0)
    assert other.digest != here.session
    # Also the secret shared with a member whose hello is the same: nothing is used again.
    assert other.secrets[1] != here.sessions[0].secrets[1]


def test_an_unsigned_or_forged_hello_is_refused_by_name(here):
    hellos = [own.hello for own in here.ephemerals]
    forged = hellos[1]._replace(key=X25519PrivateKey.generate().public_key().public_bytes_raw())
    assert "north" in refused(here, [hellos[0], forged, hellos[2]])
    of_another = forged._replace(signature=here.signers["south"].sign(forged.content))
    assert "north is not signed" in refused(here, [hellos[0], of_another, hellos[2]])


@pytest.mark.parametrize("change", [{"study": bytes(32)}, {"members": bytes(32)}])
def test_a_hello_for_another_study_or_other_members_is_refused(here, change):
    assert "another study or other members" in refused(here, with_second(here, **change))


def test_a_hello_is_of_this_process(here):
    """A restored folder or a server with an old hello cannot bring back an old session."""
    old = greet(here.signers["east"], here.members, "east", STUDY, bytes(32), 0).hello
    hellos = [old, *(own.hello for own in here.ephemerals[1:])]
    assert "not the one its process made" in refused(here, hellos)


def test_nobody_is_left_out_repeated_or_moved(here):
    hellos = [own.hello for own in here.ephemerals]
    for wrong in (hellos[:2], [hellos[0], hellos[1], hellos[1]], [hellos[0], *hellos[:0:-1]]):
        assert "one hello from each member" in refused(here, wrong)


def test_a_key_that_is_taken_is_refused(here):
    """The first draft let a colluder take another's key: one pad was added and subtracted."""
    taken = here.ephemerals[2].hello.key
    assert "the same key" in refused(here, with_second(here, key=taken))


def test_the_twin_of_a_key_shares_its_secret_but_no_pad(here):
    """1/u is the key u plus a point of order two, which X25519 does not see.

    So a colluder who takes the twin of another's key shares that one's secrets, and, before numbers
    of members were bound to pads, its pads too.
    """
    u = int.from_bytes(here.ephemerals[2].hello.key, "little")
    twin = pow(u, -1, FIELD).to_bytes(32, "little")
    public, own = X25519PublicKey.from_public_bytes, here.ephemerals[0].secret
    exchange = lambda key: own.exchange(public(key))
    assert exchange(twin) == exchange(here.ephemerals[2].hello.key)
    session = open_session(here.ephemerals[0], here.members, with_second(here, key=twin), b"", 0)
    assert session.secrets[1] == session.secrets[2]
    pads = [pad_of(session.secrets[other], REQUEST, 0, other, 4) for other in (1, 2)]
    assert not (pads[0] == pads[1]).any()


def test_a_second_name_of_a_key_is_refused(here):
    """Keys are taken modulo 2^255 - 19, and the top bit is ignored."""
    key = int.from_bytes(here.ephemerals[2].hello.key, "little")
    topped = (key | 1 << 255).to_bytes(32, "little")
    assert "one form" in refused(here, with_second(here, key=topped))
    beyond = (FIELD + 9).to_bytes(32, "little")
    assert "one form" in refused(here, with_second(here, key=beyond))


@pytest.mark.parametrize("point", [0, 1, FIELD - 1])
def test_a_point_of_small_order_is_refused(here, point):
    assert "north shares no secret" in refused(
        here, with_second(here, key=point.to_bytes(32, "little"))
    )


def test_other_data_within_a_study_are_refused(here):
    """A row more or less between two sums would show that row."""
    hellos = [own.hello for own in here.ephemerals]
    known = b"".join(hello.data for hello in hellos)
    assert open_session(here.ephemerals[0], here.members, hellos, known, 0).index == 0
    assert "north has other data" in refused(here, with_second(here, data=bytes(32)), known)


def test_a_site_that_was_set_back_notices(here):
    assert "old copy" in refused(here, with_second(here, last=2))
    hellos = with_second(here, last=1)  # one ahead: this site's reply may have been the last
    assert open_session(here.ephemerals[0], here.members, hellos, b"", 0).index == 0
    hellos = with_second(here, last=9)  # this process is old, and has come as far since
    assert open_session(here.ephemerals[0], here.members, hellos, b"", 8).index == 0
