"""The primitives are those of the RFCs, and digests of different things never meet."""

import hashlib
import hmac

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from proxfl.deploy.masking.digests import SIZE, digest, message
from proxfl.deploy.masking.members import spoken
from proxfl.deploy.masking.messages import Charter
from proxfl.deploy.masking.transcript import Request, first_tip, model_name, next_tip
from proxfl.deploy.protocol.study import make_study
from proxfl.deploy.protocol.wire import tag
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.policy import Policy
from proxfl.tables.sites import fingerprint
from proxfl.train.spec import Spec
from tests.deploy.masking.world import NAMES, STUDY, world

unhex = bytes.fromhex


def test_x25519_is_that_of_rfc_7748():
    bob = unhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    alice = unhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
    shared = unhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    secret = X25519PrivateKey.from_private_bytes(bob)
    assert secret.exchange(X25519PublicKey.from_public_bytes(alice)) == shared


def test_ed25519_is_that_of_rfc_8032():
    secret = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    signature = (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    key = Ed25519PrivateKey.from_private_bytes(unhex(secret))
    assert key.public_key().public_bytes_raw() == unhex(public)
    assert key.sign(b"") == unhex(signature)


def test_chacha20_is_that_of_rfc_8439():
    """Appendix A.1, the first vector: a key, a nonce and a counter of zeros."""
    block = (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    stream = Cipher(ChaCha20(bytes(32), bytes(16)), mode=None).encryptor()
    assert stream.update(bytes(64)) == unhex(block)


def test_hkdf_is_that_of_rfc_5869():
    salt, key = unhex("000102030405060708090a0b0c"), b"\x0b" * 22
    extracted = hmac.new(salt, key, hashlib.sha256).digest()
    assert extracted.hex() == "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5"
    expanded = HKDFExpand(SHA256(), 42, unhex("f0f1f2f3f4f5f6f7f8f9")).derive(extracted)
    assert expanded.hex() == (
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    )


def test_digests_are_those_of_sha256_over_what_they_are_for_and_their_fields():
    fields = b"\x02\0\0\0ab" + b"\x08\0\0\0" + (1).to_bytes(8, "little")
    content = b"proxfl-mask/2 sum" + bytes(32 - 17) + fields
    assert message("sum", b"ab", 1) == content
    assert digest("sum", b"ab", 1) == hashlib.sha256(content).digest()
    assert digest("sum", b"ab") != digest("start", b"ab")


def test_no_name_is_shorter_than_a_whole_digest(tmp_path):
    """Of 48 bits, twins were found within minutes."""
    here, total = world(), np.zeros((2, 2), np.uint64)
    study = make_study("s", "field", NAMES, Spec(target="y", loss="squared"))
    office = Office(tmp_path, Policy())
    tip = first_tip(STUDY, here.members.digest)
    names = [here.members.digest, here.session, tip, next_tip(tip, 1, total), tag("field")]
    names += [Request(STUDY, here.session, 1, tip, b"").digest, model_name(tip, b"")]
    names += [Charter(("a",), ()).digest(study.text), bytes.fromhex(study.id)]
    names += [bytes.fromhex(office.fingerprint("a table")), *here.ephemerals[0].hello[3:6]]
    table = fingerprint(("a",), np.ones((2, 1)), np.ones(2), {})
    assert {len(name) for name in [*names, bytes.fromhex(table)]} == {SIZE}
    assert len(set(names)) == len(names)
    assert office.fingerprint("a table") != Office(tmp_path / "b", Policy()).fingerprint("a table")


def test_every_bit_of_what_the_words_are_of_changes_them():
    said, words = world().members.digest[:24], []
    for bit in range(8 * len(said)):
        other = int.from_bytes(said, "big") ^ 1 << bit
        words.append(tuple(spoken(other.to_bytes(24, "big"))))
    assert len({*words, tuple(spoken(said))}) == 193 and {len(w) for w in words} == {12}
    assert world().members.words.count(" ") == 11


def test_fields_never_run_into_one_another():
    splits = [(b"ab", b"c"), (b"a", b"bc"), (b"abc",), (b"abc", b""), (b"", b"abc")]
    assert len({digest("sum", *fields) for fields in splits}) == len(splits)


def test_words_are_proquints():
    """127.0.0.1 and 63.84.220.193, of the proposal of the words."""
    assert spoken(bytes([127, 0, 0, 1])) == ["lusab", "babad"]
    assert spoken(bytes([63, 84, 220, 193])) == ["gutih", "tugad"]
