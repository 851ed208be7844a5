"""Keys are made, added, removed, rotated and renewed; whatever is half there is said or mended."""

import datetime
import os
import ssl
import stat

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from proxfl.deploy.ops import certificates, keys
from proxfl.deploy.ops.certificates import SERVER_DAYS, WARNING_DAYS, name_of, names_in
from proxfl.deploy.ops.home import Home
from proxfl.deploy.ops.keyring import KeyRing
from proxfl.deploy.ops.keys import (
    authority_key,
    certificate,
    life,
    make_server_keys,
    make_site_keys,
    private_key,
    renew,
    rotate_site_keys,
)
from tests.cli.world import proxfl
from tests.sentences import said


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def later(monkeypatch):
    """Moves the clock by days."""
    real = certificates.now

    def move(days):
        shift = datetime.timedelta(days=days)
        monkeypatch.setattr(certificates, "now", lambda: real() + shift)

    return move


@pytest.fixture
def home(tmp_path):
    made = proxfl(
        *("federate", "init", tmp_path / "fed", "--sites", "north", "south"),
        *("--target", "y", "--loss", "logistic", "--host", "fed.example.org"),
    )
    assert made.code == 0, made.err
    return Home(tmp_path / "fed")


def command(*words):
    """What a command of keys says, which is well."""
    done = proxfl("federate", "keys", *words)
    assert done.code == 0, done.err
    return done.out


def refused(*words):
    done = proxfl("federate", *words)
    assert (done.code, done.out) == (2, "") and len(done.err.strip().splitlines()) == 1
    return done.err


def test_keys_are_readable_by_their_owner_only_and_made_once(tmp_path):
    old = os.umask(0)
    try:
        server = make_server_keys(tmp_path / "a", ["hospital.example", "10.1.2.3"])
        site = make_site_keys(tmp_path / "b", "north")
    finally:
        os.umask(old)
    for path in (server.pair, authority_key(tmp_path / "a"), site.private):
        assert mode(path) == 0o600
    for folder in ("a", "b"):
        assert mode(tmp_path / folder) == 0o700
    before = server.pair.read_bytes()
    assert make_server_keys(tmp_path / "a").pair.read_bytes() == before
    ((name, key),) = KeyRing(tmp_path / "b").keys().items()
    assert name == "north" and load_pem_public_key(key) == private_key(site.private).public_key()


@pytest.mark.parametrize("host", ["fed.example.org", "10.1.2.3", "::1", "xn--bcher-kva.example"])
def test_names_and_addresses_are_what_a_certificate_can_be_for(host, tmp_path):
    made = make_server_keys(tmp_path, [host])
    assert name_of(host) in names_in(certificate(made.pair))


@pytest.mark.parametrize(
    "host", ["", "*", "*.example.org", "999.1.1.1", "é.example", "a b", "-a.b", "a..b", "a" * 64]
)
def test_other_hosts_are_refused_and_nothing_is_written(host, tmp_path):
    sentence = refused(
        *("init", tmp_path / "fed", "--sites", "a", "--target", "y", "--loss", "logistic"),
        f"--host={host}",
    )
    assert "--host" in sentence and not (tmp_path / "fed").exists()


def trusts(authority, pair):
    """Whether a client that holds this authority would talk to a server with this pair."""
    client = ssl.create_default_context(cafile=str(authority))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair)
    pipes = [ssl.MemoryBIO() for _ in range(4)]
    ends = [
        client.wrap_bio(pipes[0], pipes[1], server_hostname="localhost"),
        server.wrap_bio(pipes[2], pipes[3], server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError:
                return False
        pipes[2].write(pipes[1].read())
        pipes[0].write(pipes[3].read())
    return True


def test_a_renewed_certificate_is_trusted_by_sites_that_did_nothing(home, tmp_path, later):
    sites_copy = tmp_path / "ca.pem"
    sites_copy.write_bytes(home.authority.read_bytes())
    pair, offline = home.server_keys / "server.pem", tmp_path / "safe" / "ca.key"
    first, names = pair.read_bytes(), names_in(certificate(pair))
    assert trusts(sites_copy, pair)
    offline.parent.mkdir()
    authority_key(home.server_keys).rename(offline)
    assert "give it with --authority-key" in refused("keys", "renew", home.folder)
    later(5 - SERVER_DAYS)
    command("renew", home.folder, "--authority-key", offline)
    later(0)
    assert life(pair).days == 4 and trusts(sites_copy, pair)
    command("renew", home.folder, "--authority-key", offline)
    assert pair.read_bytes() != first and names_in(certificate(pair)) == names
    assert life(pair).days == SERVER_DAYS - 1 and trusts(sites_copy, pair)
    command("renew", home.folder, "--authority-key", offline, "--host", "new.example")
    assert name_of("new.example") in names_in(certificate(pair)) and trusts(sites_copy, pair)
    assert mode(pair) == 0o600


def test_a_certificate_is_not_renewed_by_the_key_of_another_authority(home, tmp_path):
    pair = home.server_keys / "server.pem"
    before = pair.read_bytes()
    make_server_keys(tmp_path / "other")
    other = authority_key(tmp_path / "other")
    sentence = refused("keys", "renew", home.folder, "--authority-key", other)
    assert "is not the key of" in sentence and pair.read_bytes() == before
    sentence = refused("keys", "renew", home.folder, "--host", "*")
    assert "--host must be" in sentence and pair.read_bytes() == before
    assert not trusts(home.authority, make_server_keys(tmp_path / "other").pair)


def test_the_authority_outlives_many_certificates_of_the_server(home):
    assert life(home.authority).days > 10 * life(home.server_keys / "server.pem").days


def test_the_end_of_a_certificate_is_announced_a_month_ahead_and_then_refused(home, later):
    warn = lambda: keys.warning(home.server_keys, "renew it")
    assert warn() == ""
    later(SERVER_DAYS - WARNING_DAYS + 2)
    assert f"{WARNING_DAYS - 3} days; renew it." in warn()
    later(SERVER_DAYS + 1)
    assert "which is past; renew it." in warn()
    sentence = refused("serve", home.folder)
    assert "ended on" in sentence and "proxfl federate keys renew" in sentence


def test_sites_are_added_listed_and_removed(home, tmp_path):
    made = make_site_keys(tmp_path / "n", "north")
    command("add", home.folder, "north", made.public)
    assert KeyRing(home.public_keys).keys().keys() == {"north"}
    told = command("list", home.folder)
    assert "fed.example.org" in told and "none" in told  # the key of south
    assert "is the key of site north" in refused("keys", "add", home.folder, "south", made.public)
    assert "is no public key" in refused("keys", "add", home.folder, "south", made.private)
    assert "'east' is no site" in refused("keys", "add", home.folder, "east", made.public)
    assert "No such file" in refused("keys", "add", home.folder, "south", tmp_path / "no.pub")
    command("remove", home.folder, "north")
    assert "no key of a site 'north'" in refused("keys", "remove", home.folder, "north")
    assert "no key of a site" in refused("keys", "remove", home.folder, "../server")


def test_a_ring_follows_the_folder_and_takes_no_file_that_is_not_a_key(tmp_path):
    ring, folder = KeyRing(tmp_path / "sites"), tmp_path / "sites"
    folder.mkdir()
    assert ring.keys() == {}
    made = make_site_keys(tmp_path / "n", "north")
    whole = made.public.read_bytes()
    (folder / "north.pub").write_bytes(whole[:40])  # a copy that is under way
    assert ring.keys() == {}
    (folder / "north.pub").write_bytes(whole)
    first = dict(ring.keys())
    rotate_site_keys(tmp_path / "n", "north")
    (folder / "north.pub").write_bytes(made.public.read_bytes())
    assert ring.keys().keys() == {"north"} and ring.keys() != first
    (folder / "north.pub").unlink()
    assert ring.keys() == {}


def test_a_rotated_key_is_another_and_a_made_one_is_kept(home):
    at = lambda: make_site_keys(home.site("north") / "keys", "north").public.read_bytes()
    command("make", home.folder, "north")
    first = at()
    command("make", home.folder, "north")
    assert at() == first
    command("rotate", home.folder, "north")
    assert at() != first


class Cut(Exception):
    """The power goes."""


@pytest.mark.parametrize("writes", range(4))
def test_keys_whose_making_was_cut_short_are_completed(writes, tmp_path, monkeypatch):
    real, left = keys.write_bytes, [writes]

    def cut(*args, **options):
        left[0] -= 1
        if left[0] < 0:
            raise Cut
        real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(keys, "write_bytes", cut)
        for make in (make_server_keys, lambda folder: make_site_keys(folder, "north")):
            left[0] = writes
            try:
                make(tmp_path)
            except Cut:
                pass
    server, site = make_server_keys(tmp_path), make_site_keys(tmp_path, "north")
    assert trusts(server.authority, server.pair)
    held = KeyRing(tmp_path).keys()["north"]
    assert load_pem_public_key(held) == private_key(site.private).public_key()
    site.public.write_bytes(b"the half of")
    make_site_keys(tmp_path, "north")
    assert KeyRing(tmp_path).keys()["north"] == held


def test_damaged_keys_are_said_in_a_sentence(tmp_path):
    server, site = make_server_keys(tmp_path), make_site_keys(tmp_path, "north")
    for path in (server.authority, server.pair, site.private):
        path.write_bytes(path.read_bytes()[:100])
    assert "north.key: this is no private key" in said(make_site_keys, tmp_path, "north")
    assert "server.pem: this is no certificate" in said(life, server.pair)
    assert "ca.pem: this is no certificate" in said(
        renew, tmp_path, ["a.example"], authority_key(tmp_path)
    )
