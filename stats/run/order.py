"""In which order do the arms of one process run, so that place and predecessor favour none of them?

Williams squares: Latin squares in which, besides every arm standing in every position once, every arm follows every
other equally often (one square for an even number of arms, a square and its mirror for an odd one). The arms are
relabelled and the rows shuffled at random for every square, from a seed that the record holds and the process's index.
For two arms this is AB and BA in a random order within each pair of blocks. The trap: a fixed order (AAAA BBBB, or A
always before B) turns drift into a difference.

Source: E. J. Williams, "Experimental designs balanced for the estimation of residual effects of treatments",
Australian Journal of Scientific Research A 2 (1949) 149–168.
"""

from __future__ import annotations

from collections.abc import Sequence

from stats.base.errors import UserError

_MEASURED, _WARMUP = 0, 1


def williams_squares(arms: int) -> list[list[list[int]]]:
    """The Latin squares of a Williams design of ``arms`` arms: one if the number is even, two if it is odd.

    Each square is a list of ``arms`` rows and each row an order of 0..arms−1; over all rows together every ordered
    pair of neighbours occurs equally often (once for an even number of arms, twice for an odd one).
    """
    # First row 0, n−1, 1, n−2, 2, …: its successive differences mod n are distinct, and a cyclic shift keeps them.
    first = [place // 2 if place % 2 == 0 else arms - 1 - place // 2 for place in range(arms)]
    square = [[(arm + shift) % arms for arm in first] for shift in range(arms)]
    if arms % 2 == 0 or arms == 1:
        return [square]
    return [square, [row[::-1] for row in square]]


def block_orders(
    arms: Sequence[str], blocks: int, *, seed: int, process: int, warmup: bool = False
) -> list[tuple[str, ...]]:
    """The order of ``arms`` in each of ``blocks`` blocks of process ``process``, each arm once a block.

    The same arguments give the same orders, on a first attempt and on a repeated one; another process index, or
    ``warmup``, gives an independent draw from the same ``seed`` (numpy SeedSequence with a spawn key). Multiples
    of the rows of ``williams_squares`` balance position and carry-over exactly; in any other number of blocks, how
    often an arm holds a position still differs by at most one. Raises UserError for no arms, a repeated arm or a
    negative count.
    """
    names = list(arms)
    if not names:
        raise UserError("arms: none to order; at least one is needed")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise UserError(f"arms: {', '.join(twice)} given more than once; each arm needs a name of its own")
    if blocks < 0 or seed < 0 or process < 0:
        raise UserError(f"blocks {blocks}, seed {seed}, process {process}: none of them may be negative")
    import numpy as np  # here, because the fresh processes import this module and need no numpy

    key = (process, _WARMUP if warmup else _MEASURED)
    rng = np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=key))
    squares = williams_squares(len(names))
    orders: list[tuple[str, ...]] = []
    while len(orders) < blocks:
        labels = [names[index] for index in rng.permutation(len(names))]
        # Rows are shuffled inside a square, so that a run cut off between squares keeps its positions balanced.
        for which in rng.permutation(len(squares)):
            square = squares[which]
            orders.extend(tuple(labels[arm] for arm in square[row]) for row in rng.permutation(len(square)))
    return orders[:blocks]
