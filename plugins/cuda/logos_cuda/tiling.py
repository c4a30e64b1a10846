"""The tiles of the tensor-core product by a weight in Q8_0: their sizes, what limits them, and how many subtiles."""

from __future__ import annotations

from dataclasses import dataclass

SUBTILES = (2, 4, 6, 8)
"""The counts `nt` that there are kernels for: subtiles of 8 columns that a warp makes, a block 4 times as many."""

STAGES = {2: 4, 4: 3, 6: 2, 8: 2}
"""Steps of the depth that a block holds in shared memory at once, by `nt`: as many as 99 KB take, which is what a block
has on the smallest of the devices that the kernel runs on."""

ROWS, THREADS, DEPTHS = 64, 256, 4
"""Rows of a tile, threads of its block, and blocks of 32 values that a step takes: as kernels/tiles.cuh has them."""

MOST_DEPTH, MOST_COLUMNS = 1 << 22, 2**31 - 1
"""What offsets of 32 bits within a tile allow of k, and those of a tile's place of n."""

CROSSOVER = 16
"""Rows from which tensor cores multiply faster than dp4a, until a tuning says otherwise."""

SEVERAL = 2
"""Rows from which products go to the tensor cores where these are asked for."""

LEAST_ARCH = 80
"""The compute capability from which devices have the instructions, times ten."""

_FILLING = 128
"""Tiles that fill a device."""


def columns(nt: int) -> int:
    """Columns of a tile."""
    return 32 * nt


def shared_bytes(nt: int) -> int:
    """Dynamic shared memory of a block, in bytes: in each stage the quants and scales of both sides; the scales of a
    depth lie 8 floats further apart than they have to."""
    rows = ROWS + columns(nt)
    return STAGES[nt] * DEPTHS * (rows * 32 + (rows + 16) * 4)


def tiles(nt: int, m: int, n: int) -> int:
    """Tiles of a product of m rows and n columns, a block of threads for each."""
    return -(-m // ROWS) * -(-n // columns(nt))


def usual_subtiles(m: int, n: int) -> int:
    """The count where no tuning names one: the largest whose tiles fill a device, else the smallest."""
    return next((nt for nt in reversed(SUBTILES) if tiles(nt, m, n) >= _FILLING), SUBTILES[0])


def limits(k: int, n: int) -> str:
    """What keeps the kernel from a weight of k rows and n columns, with the limit; empty where nothing does."""
    if k % 32:
        return f"k is {k:,}; the kernel takes multiples of 32"
    if k > MOST_DEPTH:
        return f"k is {k:,}; the kernel takes up to {MOST_DEPTH:,}"
    return f"n is {n:,}; the kernel takes up to {MOST_COLUMNS:,}" if n > MOST_COLUMNS else ""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The count that a tuning found for products of m rows, n columns and depth k on an architecture."""

    arch: str
    m: int
    n: int
    k: int
    nt: int


@dataclass(frozen=True, slots=True)
class Tiling:
    """Which products go to the tensor cores and with how many subtiles.

    crossover  the least rows of a product
    tuned      counts by shape: of those for n and k, the one whose m is nearest
    nt         the count of all products, whatever is tuned; 0: as above
    asked      what the kernel does not take is refused; else it is left to dp4a
    """

    crossover: int = CROSSOVER
    tuned: tuple[Tuned, ...] = ()
    nt: int = 0
    asked: bool = False

    def takes(self, m: int, k: int, n: int) -> bool:
        """Whether a product goes to the tensor cores."""
        return m >= self.crossover and (self.asked or not limits(k, n))

    def subtiles(self, m: int, k: int, n: int) -> int:
        """How many subtiles a product of m rows, depth k and n columns takes."""
        if self.nt:
            return self.nt
        alike = [one for one in self.tuned if (one.k, one.n) == (k, n)]
        nearest = min(alike, key=lambda one: (abs(one.m - m), one.m), default=None)
        return usual_subtiles(m, n) if nearest is None else nearest.nt
