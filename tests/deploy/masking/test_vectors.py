"""The whole protocol against a second writing of its text, and both against committed vectors.

`vectors.json` is for those who write it a third time: inputs and what comes of them, in hex.
`python -m tests.deploy.masking.test_vectors` makes it anew.
"""

import hashlib
import hmac
import json
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from proxfl.deploy.masking.members import Members
from proxfl.deploy.masking.reply import reply, total
from proxfl.deploy.masking.session import Ephemeral, Hello, open_session
from proxfl.deploy.masking.transcript import Request, first_tip, model_name, next_tip

FILE = Path(__file__).parent / "vectors.json"
NAMES = ["east", "north", "south"]
VALUES = [[0.5, -1.25, 0.0], [2.0**-41, 3e10, -7.0], [1.0, 2.0, 3.0]]
seed = lambda *words: hashlib.sha256(" ".join(map(str, words)).encode()).digest()
STUDY, QUESTION, MODEL = seed("study"), b"evaluate at x", b"the model"


def by_the_package() -> dict[str, str]:
    signers = [Ed25519PrivateKey.from_private_bytes(seed("sign", name)) for name in NAMES]
    public = [key.public_key().public_bytes_raw() for key in signers]
    members = Members.of(dict(zip(NAMES, public, strict=True)))
    owns = []
    for i, name in enumerate(NAMES):
        secret = X25519PrivateKey.from_private_bytes(seed("exchange", name))
        key, nonce = secret.public_key().public_bytes_raw(), seed("nonce", name)
        hello = Hello(i, STUDY, members.digest, key, nonce, seed("data", name), 0)
        owns.append(Ephemeral(secret, hello._replace(signature=signers[i].sign(hello.content))))
    hellos = [own.hello for own in owns]
    sessions = [open_session(own, members, hellos, b"", 0) for own in owns]
    tip = first_tip(STUDY, members.digest)
    request = Request(STUDY, sessions[0].digest, 1, tip, QUESTION).digest
    sides = zip(sessions, signers, np.array(VALUES), strict=True)
    replies = [reply(session, signer, request, values, True) for session, signer, values in sides]
    words = total(sessions[0].digest, members, request, replies, 3)
    after = next_tip(tip, 1, words)
    return {
        "members": members.digest.hex(),
        "words": members.words,
        **{f"hello {h.number} signature": h.signature.hex() for h in hellos},
        "session": sessions[0].digest.hex(),
        "secret 0 1": sessions[0].secrets[1].hex(),
        "tip 1": tip.hex(),
        "request 1": request.hex(),
        **{f"reply {r.number}": r.masked.hex() for r in replies},
        **{f"reply {r.number} signature": r.signature.hex() for r in replies},
        "sum 1": words.astype("<u8").tobytes().hex(),
        "tip 2": after.hex(),
        "model": model_name(after, MODEL).hex(),
    }


def by_the_text() -> dict[str, str]:
    """Written from docs/masking.md in whole numbers, sharing no code with the package."""
    number = lambda value: value.to_bytes(8, "little")
    fields = lambda *all_: b"".join(len(f).to_bytes(4, "little") + f for f in all_)
    content = lambda label, *all_: (
        f"proxfl-mask/2 {label}".encode().ljust(32, b"\0") + fields(*all_)
    )
    H = lambda label, *all_: hashlib.sha256(content(label, *all_)).digest()
    signers = [Ed25519PrivateKey.from_private_bytes(seed("sign", n)) for n in NAMES]
    secrets = [X25519PrivateKey.from_private_bytes(seed("exchange", n)) for n in NAMES]
    listed = [
        f
        for n, k in zip(NAMES, signers, strict=True)
        for f in (n.encode(), k.public_key().public_bytes_raw())
    ]
    members = H("members", *listed)
    bits = int.from_bytes(members[:24], "big")
    words = []
    for k in range(12):
        w = bits >> 16 * (11 - k) & 0xFFFF
        c, v = "bdfghjklmnprstvz", "aiou"
        words.append(c[w >> 12] + v[w >> 10 & 3] + c[w >> 6 & 15] + v[w >> 4 & 3] + c[w & 15])
    said, signatures = [], []
    for i, n in enumerate(NAMES):
        key = secrets[i].public_key().public_bytes_raw()
        about = (number(i), STUDY, members, key, seed("nonce", n), seed("data", n), number(0))
        said.append(content("hello", *about))
        signatures.append(signers[i].sign(said[i]))
    session = H("session", STUDY, members, *(a + b for a, b in zip(said, signatures, strict=True)))
    tip = H("start", STUDY, members)
    request = H("request", STUDY, session, number(1), tip, QUESTION)
    shared = lambda i, j: hmac.new(
        session,
        secrets[i].exchange(
            X25519PublicKey.from_public_bytes(secrets[j].public_key().public_bytes_raw())
        ),
        hashlib.sha256,
    ).digest()

    def pad(i, j):
        info = content("pad", request, number(min(i, j)), number(max(i, j)))
        key = hmac.new(shared(i, j), info + b"\x01", hashlib.sha256).digest()
        stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(64))
        return [int.from_bytes(stream[k : k + 16], "little") for k in range(0, 64, 16)]

    masked, sums = [], [0] * 4
    for i, row in enumerate(VALUES):
        mine = [round(v * 2**40) for v in row] + [0]
        sums = [(a + b) % 2**128 for a, b in zip(sums, mine, strict=True)]
        for j in range(3):
            if j != i:
                sign = 1 if i < j else -1
                mine = [m + sign * p for m, p in zip(mine, pad(i, j), strict=True)]
        masked.append(b"".join((m % 2**128).to_bytes(16, "little") for m in mine))
    proof = lambda i: content(
        "reply", session, request, number(i), hashlib.sha256(masked[i]).digest()
    )
    summed = b"".join(s.to_bytes(16, "little") for s in sums[:3])
    after = H("sum", tip, number(1), summed)
    return {
        "members": members.hex(),
        "words": " ".join(words),
        **{f"hello {i} signature": signatures[i].hex() for i in range(3)},
        "session": session.hex(),
        "secret 0 1": shared(0, 1).hex(),
        "tip 1": tip.hex(),
        "request 1": request.hex(),
        **{f"reply {i}": masked[i].hex() for i in range(3)},
        **{f"reply {i} signature": signers[i].sign(proof(i)).hex() for i in range(3)},
        "sum 1": summed.hex(),
        "tip 2": after.hex(),
        "model": H("model", after, MODEL).hex(),
    }


def test_the_package_and_a_second_writing_of_the_text_agree():
    assert by_the_package() == by_the_text()


def test_the_committed_vectors_are_those_of_this_protocol():
    assert json.loads(FILE.read_text())["results"] == by_the_text()


if __name__ == "__main__":
    inputs = {"names": NAMES, "values": VALUES, "study": STUDY.hex()}
    inputs |= {"question": QUESTION.hex(), "model": MODEL.hex()}
    inputs["seeds"] = "SHA-256 of 'sign NAME', 'exchange NAME', 'nonce NAME', 'data NAME'"
    held = {"protocol": "proxfl-mask/2", "inputs": inputs, "results": by_the_text()}
    FILE.write_text(json.dumps(held, indent=1) + "\n")
