"""Laws of fetched data: only the right bytes enter the cache, whole, and only once."""

import gzip
import io
import os
import stat
import tarfile

import numpy as np
import pytest

from proxfl.data import fetch
from proxfl.data.fetch import Collection, cache_folder, digest, get
from proxfl.data.mnist import FASHION_MNIST, FILES, MNIST, load, parse

SHAPES = {FILES[0]: (6, 28, 28), FILES[1]: (6,), FILES[2]: (3, 28, 28), FILES[3]: (3,)}
ARRAYS = {
    name: np.random.default_rng(i).integers(0, 256 if len(shape) == 3 else 10, shape, np.uint8)
    for i, (name, shape) in enumerate(SHAPES.items())
}


def as_idx(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return header + array.tobytes()


CONTENTS = {name: as_idx(array) for name, array in ARRAYS.items()}


def small(mirrors=(), package=None):
    """MNIST's files with six and three pictures in them."""
    return Collection("small", {n: digest(c) for n, c in CONTENTS.items()}, mirrors, package)


def put_folder(folder, contents=None, packed=False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in (CONTENTS if contents is None else contents).items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(data))
        else:
            (folder / name).write_bytes(data)
    return folder


def put_package(path, contents=None):
    with tarfile.open(path, "w:gz") as tar:
        for name, data in (CONTENTS if contents is None else contents).items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def put_npm(folder, script):
    """A stand-in for the npm client."""
    folder.mkdir()
    npm = folder / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    return str(folder) + os.pathsep + os.environ["PATH"]


def holds_everything(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENTS


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "compressed"])
def test_a_folder_of_the_user_fills_the_cache(tmp_path, packed):
    source = put_folder(tmp_path / "mine", packed=packed)
    folder = get(small(), tmp_path / "cache", source)
    assert folder == tmp_path / "cache" / "small" and holds_everything(folder)


def test_a_package_file_fills_the_cache(tmp_path):
    assert holds_everything(get(small(), tmp_path / "cache", put_package(tmp_path / "p.tgz")))


def test_a_mirror_fills_the_cache(tmp_path):
    mirror = put_folder(tmp_path / "mirror", packed=True).as_uri() + "/"
    assert holds_everything(get(small((mirror,)), tmp_path / "cache"))


def test_the_npm_client_fills_the_cache(tmp_path, monkeypatch):
    package = put_package(tmp_path / "p.tgz")
    path = put_npm(tmp_path / "bin", f'test "$5" = small@1 && cp {package} "$4"')
    monkeypatch.setenv("PATH", path)
    assert holds_everything(get(small(package="small@1"), tmp_path / "cache", "npm"))


def test_sources_are_tried_in_turn_and_what_one_lacks_the_next_gives(tmp_path, monkeypatch):
    first = put_folder(tmp_path / "first", {FILES[0]: CONTENTS[FILES[0]]}, packed=True)
    package = put_package(tmp_path / "p.tgz", {n: CONTENTS[n] for n in FILES[1:]})
    monkeypatch.setenv("PATH", put_npm(tmp_path / "bin", f'cp {package} "$4"'))
    mirrors = (first.as_uri() + "/", (tmp_path / "nowhere").as_uri() + "/")
    assert holds_everything(get(small(mirrors, "small@1"), tmp_path / "cache"))


def test_files_that_are_right_are_never_fetched_again(tmp_path):
    folder = get(small(), tmp_path, put_folder(tmp_path / "mine"))
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert get(small(("nowhere://",)), tmp_path) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_damaged_file_is_replaced_and_the_others_are_not(tmp_path):
    source = put_folder(tmp_path / "mine")
    folder = get(small(), tmp_path, source)
    inodes = {name: (folder / name).stat().st_ino for name in FILES}
    (folder / FILES[2]).write_bytes(b"damaged")
    assert holds_everything(get(small(), tmp_path, source))
    assert all((folder / n).stat().st_ino == inodes[n] for n in FILES if n != FILES[2])


def test_the_environment_names_the_cache_and_an_argument_wins(tmp_path, monkeypatch):
    monkeypatch.setenv("PROXFL_DATA", str(tmp_path / "a"))
    assert cache_folder() == tmp_path / "a"
    assert cache_folder(tmp_path / "b") == tmp_path / "b"
    monkeypatch.delenv("PROXFL_DATA")
    assert cache_folder().name == "proxfl"


def wrong_bytes(tmp_path):
    return put_folder(tmp_path / "mine", CONTENTS | {FILES[0]: CONTENTS[FILES[1]]})


def missing_file(tmp_path):
    return put_folder(tmp_path / "mine", {FILES[1]: CONTENTS[FILES[1]]})


def cut_short(tmp_path):
    source = put_folder(tmp_path / "mine", packed=True)
    path = source / f"{FILES[0]}.gz"
    path.write_bytes(path.read_bytes()[:-9])
    return source


def not_compressed(tmp_path):
    source = put_folder(tmp_path / "mine", packed=True)
    (source / f"{FILES[0]}.gz").write_bytes(b"plain")
    return source


def no_package(tmp_path):
    (tmp_path / "p.tgz").write_bytes(b"plain")
    return tmp_path / "p.tgz"


def cut_package(tmp_path):
    path = put_package(tmp_path / "p.tgz")
    path.write_bytes(path.read_bytes()[:-200])
    return path


def package_without_it(tmp_path):
    return put_package(tmp_path / "p.tgz", {FILES[1]: CONTENTS[FILES[1]]})


def link_in_package(tmp_path):
    """To a file outside that even has the right bytes."""
    outside = put_folder(tmp_path / "outside") / FILES[0]
    with tarfile.open(tmp_path / "p.tgz", "w:gz") as tar:
        link = tarfile.TarInfo(f"package/data/{FILES[0]}")
        link.type, link.linkname = tarfile.SYMTYPE, str(outside)
        tar.addfile(link)
    return tmp_path / "p.tgz"


def hard_link_in_package(tmp_path):
    with tarfile.open(tmp_path / "p.tgz", "w:gz") as tar:
        member = tarfile.TarInfo("package/elsewhere")
        member.size = len(CONTENTS[FILES[0]])
        tar.addfile(member, io.BytesIO(CONTENTS[FILES[0]]))
        link = tarfile.TarInfo(f"package/data/{FILES[0]}")
        link.type, link.linkname = tarfile.LNKTYPE, "package/elsewhere"
        tar.addfile(link)
    return tmp_path / "p.tgz"


@pytest.mark.parametrize(
    "make, words",
    [
        (wrong_bytes, "its SHA-256 is"),
        (missing_file, f"neither {FILES[0]} nor {FILES[0]}.gz is there"),
        (cut_short, "not a whole gzip file"),
        (not_compressed, "not a whole gzip file"),
        (no_package, "p.tgz is not a whole package"),
        (cut_package, "p.tgz is not a whole package"),
        (package_without_it, f"the package holds no package/data/{FILES[0]}"),
        (link_in_package, "is not a plain file"),
        (hard_link_in_package, "is not a plain file"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_bad_source_is_refused_in_a_sentence_and_leaves_nothing_behind(tmp_path, make, words):
    with pytest.raises(OSError) as error:
        get(small(), tmp_path / "cache", make(tmp_path))
    sentence = str(error.value)
    assert words in sentence and sentence.endswith(".") and "\n" not in sentence
    assert not (tmp_path / "cache" / "small" / FILES[0]).exists()
    assert not list((tmp_path / "cache").rglob(".*"))


def test_what_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "LARGEST", 100)
    for source in (put_folder(tmp_path / "a", packed=True), put_package(tmp_path / "p.tgz")):
        with pytest.raises(OSError, match="100 bytes"):
            get(small(), tmp_path / "cache", source)


def test_npm_that_fails_is_quoted(tmp_path, monkeypatch):
    path = put_npm(tmp_path / "bin", "echo 'npm error code E404' >&2; echo more >&2; exit 1")
    monkeypatch.setenv("PATH", path)
    with pytest.raises(OSError, match=r"npm failed \(npm error code E404\)"):
        get(small(package="small@1"), tmp_path / "cache")


def test_without_npm_the_message_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match="npm is not installed"):
        get(small(package="small@1"), tmp_path / "cache")


@pytest.mark.parametrize("source, words", [("npm", "has no npm package"), ("nowhere", "neither a")])
def test_a_source_that_does_not_exist_is_refused(tmp_path, source, words):
    with pytest.raises((OSError, ValueError), match=words):
        get(small(), tmp_path / "cache", source)


def test_loading_gives_back_the_arrays(tmp_path):
    train, test = load(small(), put_folder(tmp_path / "mine"))
    for name, found in zip(FILES, (*train, *test), strict=True):
        np.testing.assert_array_equal(found, ARRAYS[name])
    assert train.images.dtype == np.uint8 and train.labels.dtype == np.int32


def test_loading_checks_what_it_reads(tmp_path):
    folder = put_folder(tmp_path / "mine", CONTENTS | {FILES[3]: b"other"})
    with pytest.raises(ValueError, match="is not small's t10k-labels-idx1-ubyte"):
        load(small(), folder)
    (folder / FILES[3]).unlink()
    with pytest.raises(FileNotFoundError, match="get it with `proxfl data small`"):
        load(small(), folder)


@pytest.mark.parametrize("data", [b"", b"\0\0\x08", b"\0\0\x0d\x01\0\0\0\1....", b"\x1f\x8b\x08\0"])
def test_other_formats_are_not_idx(data):
    with pytest.raises(ValueError, match="not an IDX file of unsigned bytes"):
        parse(data, "it")


@pytest.mark.parametrize("change", [lambda d: d[:-1], lambda d: d + b"\0", lambda d: d[:6]])
def test_an_idx_file_of_another_length_than_its_header_says_is_refused(change):
    with pytest.raises(ValueError, match="which its header does not fit"):
        parse(change(CONTENTS[FILES[0]]), "it")


@pytest.mark.parametrize("collection", [MNIST, FASHION_MNIST], ids=lambda c: c.name)
def test_every_file_of_the_real_sets_has_its_own_digest(collection):
    assert tuple(collection.sha256) == FILES
    assert len({int(d, 16) for d in collection.sha256.values()}) == 4
    assert {len(d) for d in collection.sha256.values()} == {64}


def test_the_command_fetches_from_a_folder_and_says_where_to(tmp_path, monkeypatch, capsys):
    from proxfl.cli.main import main

    monkeypatch.setattr("proxfl.data.mnist.MNIST", small()._replace(name="mnist"))
    source = put_folder(tmp_path / "source", packed=True)
    assert main(["data", "mnist", "--source", str(source), "--cache", str(tmp_path / "c")]) == 0
    assert str(tmp_path / "c" / "mnist") in capsys.readouterr().out
    assert (tmp_path / "c" / "mnist" / FILES[0]).read_bytes() == CONTENTS[FILES[0]]
    nowhere = ["--source", str(tmp_path / "nowhere"), "--cache", str(tmp_path / "d")]
    assert main(["data", "mnist", *nowhere]) == 2
    assert "is neither a folder nor a file" in capsys.readouterr().err
