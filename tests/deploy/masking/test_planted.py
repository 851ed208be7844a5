"""No number of a single site is anywhere at the server, in any encoding, also inside archives.

What sites say in the clear is names and signatures; the rest is uniform but for its sum. Looked
through are all frames that cross the network, all that is in the server's folders, and all logs. An
evaluation of numbers or of times is not held to this: in its groups a site may be alone.
"""

import base64
import gzip
import logging
import zipfile
import zlib
from io import BytesIO

import numpy as np
import pytest

from proxfl.deploy.site.following import FollowingSite
from proxfl.engine import fixed_point
from proxfl.train.evaluate import How
from tests.deploy import test_description as descriptions
from tests.deploy.field import NAMES
from tests.deploy.masking import test_evaluation as evaluations
from tests.deploy.masking.test_federate import masked


def trained(folder):
    field = masked(folder)
    return field, field.run


def described(folder):
    field = descriptions.asked(folder, masked=True)
    return field, lambda: descriptions.found(field)


def evaluated(folder):
    """Of classes: rows are counted in cells, and their losses added up over all of them."""
    field, _ = evaluations.asked(folder, How(draws=4), tol=1e-3)
    return field, lambda: evaluations.found(field)


@pytest.mark.parametrize("study", [trained, described, evaluated])
@pytest.mark.filterwarnings("ignore:Not converged")
def test_the_server_gets_no_site_s_own_numbers(study, tmp_path, monkeypatch, caplog):
    (field, run), heard, said = study(tmp_path), [], {}
    fate, sums = field.transport.fate, FollowingSite.sums
    field.transport.fate = lambda way, site, frame: heard.append(frame) or fate(way, site, frame)

    def telling(self, question):
        values, sound = sums(self, question)
        own = np.array(values, float), self.seat.table.rows
        said.setdefault(question.content, []).append(own)
        return values, sound

    monkeypatch.setattr(FollowingSite, "sums", telling)
    with caplog.at_level(logging.DEBUG):
        run()
    # Their folders and files, and the model, which is of the files.
    sites = [tmp_path / name for name in (*NAMES, "data", "model")]
    kept = [p for p in tmp_path.rglob("*") if p.is_file() and not {*p.parents} & {*sites}]
    assert any("exchanges" in path.parts for path in kept)
    texts = [record.getMessage().encode() for record in caplog.records]
    everything = b"\0".join(opened([*heard, *(path.read_bytes() for path in kept), *texts]))
    vectors = []
    for each in said.values():
        for v, rows in each:
            own = v[uncommon(v)]
            vectors += [own, own / rows]
    odd = np.concatenate(vectors)
    assert len(odd) > 10
    words = fixed_point.encode(odd)[:, 0]
    for order in "<>":
        assert not held_in(everything, odd.astype(f"{order}f8"))
        assert not held_in(everything, words.astype(f"{order}u8"))
    pairs = [v[:2] for v in vectors if len(v) > 1]
    assert len(pairs) > 3
    for pair in pairs[:: len(pairs) // 20 + 1]:
        assert not [form for form in encodings(pair) if form in everything]


def uncommon(values):
    """Which numbers nobody else would write: not small ones, nor those of few digits."""
    long = np.array([len(repr(value)) > 12 for value in values.tolist()], bool)
    return long & (np.abs(values) > 1e-6) & (fixed_point.encode(values)[:, 0] % 2**20 != 0)


def held_in(data, numbers):
    """Whether one of the numbers, of eight bytes each, is anywhere in the data."""
    wanted = np.sort(numbers.view("<u8"))
    padded = np.frombuffer(data + bytes(-len(data) % 8 + 8), np.uint8)
    for i in range(8):
        words = padded[i : len(padded) - 8 + i].view("<u8")
        place = np.searchsorted(wanted, words)
        if (wanted[np.minimum(place, len(wanted) - 1)] == words).any():
            return True
    return False


def opened(held):
    """The same, and what is compressed in it, however deep."""
    left, found = list(held), []
    while left:
        found.append(data := left.pop())
        if zipfile.is_zipfile(BytesIO(data)):
            with zipfile.ZipFile(BytesIO(data)) as archive:
                left += [archive.read(name) for name in archive.namelist()]
        if data[:2] == b"\x1f\x8b":
            left.append(gzip.decompress(data))
        if data[:1] == b"\x78" and data[1:2] in (b"\x01", b"\x5e", b"\x9c", b"\xda"):
            left.append(zlib.decompress(data))
    return found


def encodings(vector):
    """Ways in which numbers might be written down."""
    words = fixed_point.encode(vector)
    for order in "<>":
        for raw in (vector.astype(f"{order}f8"), vector.astype(f"{order}f4"), words):
            data = (raw if raw is not words else words.astype(f"{order}u8")).tobytes()
            yield from (data, data.hex().encode(), data.hex().upper().encode())
            for place in range(3):  # base64 of something that has it inside
                text = base64.b64encode(bytes(place) + data)
                yield text[-(-place * 8 // 6) : (place + len(data)) * 8 // 6]
    for number in vector.tolist():
        yield from (text.encode() for text in (repr(number), f"{number:#.9g}", f"{number:.8e}"))


@pytest.mark.parametrize("wrap", [lambda data: data, gzip.compress, zlib.compress])
def test_whoever_looks_for_numbers_would_find_them(wrap, tmp_path):
    vector = np.array([0.123456789012, -98.7654321])
    for form in encodings(vector):
        np.savez_compressed(tmp_path / "a.npz", held=np.frombuffer(b"so" + form, np.uint8))
        assert form in b"\0".join(opened([wrap((tmp_path / "a.npz").read_bytes())]))
    for at in range(9):
        data = b"x" * at + vector.astype(">f8").tobytes()
        assert all(held_in(data, vector[k:][:1].astype(">f8")) for k in range(2))
