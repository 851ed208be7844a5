"""Save any pytree of arrays as one .npz file, a leaf per path, and load it back bit for bit.

The archive's comment is the SHA-256 of the file, itself counted as zeros: what is not as it was
written is refused before it is read. Nothing is pickled. Loading needs an example of the same
structure, such as `start(...)`, and refuses a file whose leaves differ from it in name, shape or
type. What is no array, such as a log, goes with it as JSON and can be read alone.
"""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.precision import precision
from proxfl.storage.files import whole

ABOUT = "about.json"  # no leaf has such a path
BLANK = b"0" * 64  # where the digest goes


def is_key(kind: Any) -> bool:
    """Whether a type is that of random keys."""
    return jnp.issubdtype(kind, jax.dtypes.prng_key)


def plain(leaf: Any) -> Any:
    """A leaf as NumPy has it, or only its shape and type; a random key as the numbers inside it."""
    key = is_key(getattr(leaf, "dtype", float))
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.eval_shape(jax.random.key_data, leaf) if key else leaf
    return np.asarray(jax.random.key_data(leaf) if key else leaf)


def named_arrays(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by path; of an abstract one, their shapes and types."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path) or "value": plain(leaf) for path, leaf in flat}


def content_of(tree: Any) -> bytes:
    """All that a tree of arrays holds."""
    held = {name: np.ascontiguousarray(array) for name, array in named_arrays(tree).items()}
    each = (f"{name} {a.dtype} {a.shape}".encode() + a.tobytes() for name, a in held.items())
    return b"".join(each)


def rebuild(
    found: Mapping[str, Any], like: Any, what: str, error: type[ValueError] = ValueError
) -> Any:
    """The tree `like`, real or abstract, with the leaves that were found; Python floats stay so.

    Raises `error` unless they have just the names, shapes and types of those of `like`.
    """
    expected = named_arrays(like)
    if found.keys() != expected.keys():
        odd = ", ".join(sorted(map(repr, found.keys() ^ expected.keys())))
        raise error(f"{what} holds other leaves than expected: {odd} differ.")
    kind = lambda a: "text" if isinstance(a, str) else f"{a.dtype}{list(a.shape)}"
    leaves, structure = jax.tree.flatten(like)
    for i, (name, wanted) in enumerate(expected.items()):
        value = found[name]
        if kind(value) != kind(wanted):
            raise error(f"{what} has {name!r} as {kind(value)}, expected {kind(wanted)}.")
        array: Any = float(value) if isinstance(leaves[i], float) else jnp.asarray(value)
        key = is_key(getattr(leaves[i], "dtype", float))
        leaves[i] = jax.random.wrap_key_data(array) if key else array
    return jax.tree.unflatten(structure, leaves)


def save(path: str | os.PathLike, tree: Any, about: Any = None) -> None:
    """Write `tree`, and JSON `about` it, to one file, atomically."""
    arrays = named_arrays(tree)
    arrays[ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with whole(path) as file:
        seen = Hashing(file)
        with zipfile.ZipFile(seen, "w") as archive:  # type: ignore[arg-type]
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            archive.comment = BLANK
        file.seek(-len(BLANK), os.SEEK_END)
        file.write(seen.digest.hexdigest().encode())


class Hashing:
    """A file to write to, and the digest of all that was written."""

    def __init__(self, file: BinaryIO):
        self.file, self.digest = file, hashlib.sha256()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()


def load_about(path: str | os.PathLike) -> Any:
    """The JSON that was saved with a tree; ValueError if there is none."""
    with opened(path) as stored:
        return json.loads(stored[ABOUT].tobytes())


def load(path: str | os.PathLike, like: Any) -> Any:
    """Read what `save` wrote into the structure of `like`."""
    with opened(path) as stored:
        arrays = {name: stored[name] for name in stored.files if name != ABOUT}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("not all in it are arrays")  # NumPy gives what is none as bytes
    with precision(np.float64):  # so that every array keeps its own
        return rebuild(arrays, like, os.fspath(path))


def refuse_not_finite(path: str | os.PathLike, tree: Any, like: Any) -> None:
    """Refuse numbers that no run has saved: only what begins infinite may be so later."""
    for (name, found), first in zip(
        named_arrays(tree).items(), named_arrays(like).values(), strict=True
    ):
        if found.dtype.kind == "f" and not (np.isfinite(found) | np.isinf(first)).all():
            raise ValueError(f"{path}: {name!r} is not finite; train anew.")


@contextmanager
def opened(path: str | os.PathLike) -> Iterator[Any]:
    """The arrays in a file that is as it was written; ValueError, in a sentence, for any other."""
    try:
        data = Path(path).read_bytes()
        blank = data[: -len(BLANK)] + BLANK
        if hashlib.sha256(blank).hexdigest().encode() != data[-len(BLANK) :]:
            raise ValueError("its digest does not fit it")
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            yield stored
    except Exception as error:  # of a file that somebody made, its readers may raise anything
        why = " ".join(str(error).split())
        sentence = f"{path}: this is no checkpoint of a run, or a damaged one ({why}); train anew."
        raise ValueError(sentence) from None
