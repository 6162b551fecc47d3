"""Does the order of arms favour no arm: by position, by predecessor, from process to process, and from a known seed?"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stats.base.errors import UserError
from stats.run.order import block_orders, williams_squares


def position_counts(orders: list[tuple[str, ...]]) -> Counter[tuple[int, str]]:
    return Counter((place, arm) for order in orders for place, arm in enumerate(order))


def carry_over_counts(orders: list[tuple[str, ...]]) -> Counter[tuple[str, str]]:
    return Counter(pair for order in orders for pair in pairwise(order))


def names(count: int) -> list[str]:
    return [f"arm{index}" for index in range(count)]


@pytest.mark.parametrize("count", range(1, 13))
def test_every_square_is_latin(count: int) -> None:
    for square in williams_squares(count):
        for line in [*square, *zip(*square, strict=True)]:
            assert sorted(line) == list(range(count))


@pytest.mark.parametrize("count", range(2, 13))
def test_full_design_balances_position_and_carry_over_exactly(count: int) -> None:
    blocks = 3 * sum(len(square) for square in williams_squares(count))
    orders = block_orders(names(count), blocks, seed=5, process=2)
    positions, pairs = position_counts(orders), carry_over_counts(orders)
    assert len(positions) == count * count
    assert set(positions.values()) == {blocks // count}
    assert len(pairs) == count * (count - 1)
    assert set(pairs.values()) == {blocks // count}


def test_balance_check_bites_on_a_cyclic_latin_square() -> None:
    cyclic = [tuple(f"arm{(start + place) % 4}" for place in range(4)) for start in range(4)]
    assert set(position_counts(cyclic).values()) == {1}
    assert len(carry_over_counts(cyclic)) == 4  # of 12 ordered pairs: always the same predecessor


@given(count=st.integers(1, 11), blocks=st.integers(0, 60), seed=st.integers(0, 2**63), process=st.integers(0, 50))
@settings(max_examples=150, deadline=None)
def test_any_number_of_blocks_is_balanced_within_one(count: int, blocks: int, seed: int, process: int) -> None:
    arms = names(count)
    orders = block_orders(arms, blocks, seed=seed, process=process)
    assert len(orders) == blocks
    assert all(sorted(order) == sorted(arms) for order in orders)
    positions = position_counts(orders)
    counts = [positions[place, arm] for place in range(count) for arm in arms]
    assert max(counts) - min(counts) <= 1


def test_two_arms_run_ab_and_ba_equally_often_in_random_order() -> None:
    firsts = set()
    for process in range(64):
        orders = block_orders(["A", "B"], 20, seed=1, process=process)
        assert Counter(orders) == {("A", "B"): 10, ("B", "A"): 10}
        firsts.add(orders[0])
    assert firsts == {("A", "B"), ("B", "A")}


def test_order_comes_from_seed_and_process_alone() -> None:
    def draw(seed: int = 7, process: int = 0, *, warmup: bool = False) -> list[tuple[str, ...]]:
        return block_orders(names(5), 20, seed=seed, process=process, warmup=warmup)

    assert draw() == draw()
    assert draw()[:10] == block_orders(names(5), 10, seed=7, process=0)
    different = [draw(), draw(process=1), draw(seed=8), draw(warmup=True), draw(seed=8, process=1)]
    assert len({tuple(orders) for orders in different}) == len(different)


def test_processes_start_with_every_arm() -> None:
    starts = {block_orders(names(6), 2, seed=3, process=process)[0][0] for process in range(60)}
    assert starts == set(names(6))


@pytest.mark.parametrize(
    ("arms", "blocks", "seed", "message"),
    [
        ([], 2, 0, "none to order"),
        (["A", "B", "A"], 2, 0, "A given more than once"),
        (["A"], -1, 0, "negative"),
        (["A"], 2, -1, "negative"),
    ],
)
def test_bad_input_is_one_line(arms: list[str], blocks: int, seed: int, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        block_orders(arms, blocks, seed=seed, process=0)
    assert "\n" not in str(caught.value)
