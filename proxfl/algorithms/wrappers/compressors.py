"""Ways to make a vector small: fewer coordinates, or fewer bits for each.

None is scaled to be unbiased: what is left out is the sender's to make up for (error feedback).
"""

import abc

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt

from proxfl.core import Compact
from proxfl.pytree import Condition, count, pytree, static

BYTE = 8
WIDTHS = Condition("2, 4 or 8", lambda v: v.item() in (2, 4, 8))


class Compressor(abc.ABC):
    @abc.abstractmethod
    def compress(self, x: Float[Array, " d"], key: PRNGKeyArray) -> Compact: ...


@pytree
class Listed(Compact):
    """Some coordinates and where they are; the others are zero."""

    values: Float[Array, " k"]
    places: Int[Array, " k"]
    size: int = static()

    def expand(self):
        return jnp.zeros(self.size, self.values.dtype).at[self.places].set(self.values)


@pytree
class TopK(Compressor):
    """The k coordinates of largest magnitude, each with an index of four bytes."""

    k: int = count()

    def compress(self, x, key):
        _, places = jax.lax.top_k(jnp.abs(x), min(self.k, x.size))
        return Listed(x[places], places, x.size)


@pytree
class Seeded(Compact):
    """Coordinates at random places, and the seed that says which."""

    values: Float[Array, " k"]
    seed: UInt[Array, " words"]
    size: int = static()

    def expand(self):
        places = random_places(self.seed, self.values.size, self.size)
        return jnp.zeros(self.size, self.values.dtype).at[places].set(self.values)


def random_places(seed: UInt[Array, " words"], k: int, size: int) -> Int[Array, " k"]:
    return jax.random.choice(jax.random.wrap_key_data(seed), size, (k,), replace=False)


@pytree
class RandomK(Compressor):
    """k coordinates, every set of k equally likely."""

    k: int = count()

    def compress(self, x, key):
        seed, k = jax.random.key_data(key), min(self.k, x.size)
        return Seeded(x[random_places(seed, k, x.size)], seed, x.size)


@pytree
class Coded(Compact):
    """Whole multiples of a unit, as codes of a few bits each, several to a byte."""

    codes: UInt[Array, " bytes"]
    unit: Float[Array, ""]
    bits: int = static()
    size: int = static()

    def expand(self):
        shifts = jnp.arange(0, BYTE, self.bits, dtype=jnp.uint8)
        codes = (self.codes[:, None] >> shifts[None, :]) & jnp.uint8(2**self.bits - 1)
        return (codes.ravel()[: self.size].astype(self.unit.dtype) - levels(self.bits)) * self.unit


def levels(bits: int) -> int:
    """How many steps the codes reach to either side of zero."""
    return 2 ** (bits - 1) - 1


@pytree
class Quantised(Compressor):
    """Every coordinate rounded at random, without bias, to a multiple of max|x| / levels."""

    bits: int = static(default=8, rule=WIDTHS)

    def compress(self, x, key):
        largest, reach = jnp.abs(x).max(), levels(self.bits)
        unit = jnp.where(largest > 0, largest / reach, 1)
        rounded = jnp.floor(x / unit + jax.random.uniform(key, x.shape, x.dtype))
        codes = (jnp.clip(rounded, -reach, reach) + reach).astype(jnp.uint8)
        shifts = jnp.arange(0, BYTE, self.bits, dtype=jnp.uint8)
        codes = jnp.pad(codes, (0, -x.size % shifts.size)).reshape(-1, shifts.size)
        packed = (codes << shifts[None, :]).sum(axis=1, dtype=jnp.uint8)
        return Coded(packed, unit, self.bits, x.size)
