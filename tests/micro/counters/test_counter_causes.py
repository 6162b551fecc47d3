"""A cause is given only where the figures show it. The figures are those of an H200, at m = n = 2048, k = 512."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from micro.counters.addresses import grouped_addresses
from micro.counters.causes import (
    cause,
    copies_by_instruction,
    exact_conflicts,
    exact_wavefronts,
    lsu_rows,
    standing,
)
from micro.counters.record import CountersRecord, Instructions, LaunchRow
from stats.record.schema import Device

PREDICTED = {"main loop": {"ldsm_wavefronts": 1_572_864, "load_wavefronts": 1_572_864}}
COUNTED = {
    "load_wavefronts": 1_573_369.0,
    "lds_wavefronts": 0.0,
    "ldsm_wavefronts": 1_572_864.0,
    "load_conflicts": 505.0,
    "store_conflicts": 0.0,
    "arbitration": 505.0,
    "ldgsts_wavefronts": 1_146_880.0,
    "lsu_pipe": 894_976.0,
}
OPCODES = {
    "HMMA": 1_048_576,
    "LDSM": 524_288,
    "LDGSTS": 147_456,
    "LDS": 98_304,
    "STG": 65_536,
    "LDGDEPBAR": 36_864,
    "SHFL": 16_384,
    "S2R": 8_192,
    "EXIT": 2_048,
}


def launch(opcodes: dict[str, int] | None = None, **counted: float | None) -> LaunchRow:
    return LaunchRow(
        arm="A3",
        template=[1, 0],
        blocks=256,
        arguments={},
        kernel="gemm_kernel",
        warp_ksteps=65_536,
        predicted=PREDICTED,
        counted={**COUNTED, **counted},
        opcodes=OPCODES if opcodes is None else opcodes,
    )


def record(*launches: LaunchRow) -> CountersRecord:
    return CountersRecord(
        tool="gemm-bench",
        created_utc="",
        device=Device(name="NVIDIA H200", uuid="", compute_capability="9.0", sm_count=132),
        software={},
        git_commit="unknown",
        git_dirty=False,
        source_hash="0",
        config={},
        command=[],
        seconds=0,
        metrics=[],
        drafts=[],
        launches=list(launches),
    )


def test_an_excess_of_the_chips_counters_that_arbitration_covers_is_inferred_to_be_its() -> None:
    for key in ("load_wavefronts", "load_conflicts"):
        assert cause(launch(), key).startswith("inferred: arbitration in L1")
        assert cause(launch(arbitration=504.0), key).startswith("open: by instruction, counted = predicted")
        assert cause(launch(arbitration=None), key).startswith("open: by instruction, counted = predicted")


@pytest.mark.parametrize(
    "counted",
    [
        {"ldsm_wavefronts": 1_572_865.0},  # an instruction did take one more
        {"ldsm_wavefronts": None},  # not counted: nothing is shown
        {"load_conflicts": None},
        {"load_wavefronts": 1_572_863.0},  # fewer than the instructions took: no excess
    ],
)
def test_without_the_evidence_a_difference_stays_open(counted: dict[str, float | None]) -> None:
    assert standing(cause(launch(**counted), "load_wavefronts")) == "open"


# A1 by instruction: first tile, second tile, three unrolled turns, of which the last two issue copies with lanes off.
A1_COPIES = (
    *((2, 2_048, 0, 16_384), (2, 2_048, 0, 8_192), (2, 2_048, 16_384, 16_384), (2, 2_048, 8_192, 8_192)),
    *((2, 12_288, 147_456, 81_920), (1, 12_288, 49_152, 40_960), (1, 12_288, 106_496, 40_960)),
    *((2, 10_240, 81_920, 81_920), (2, 10_240, 40_960, 40_960)),
    *((2, 10_240, 131_072, 65_536), (1, 10_240, 40_960, 32_768), (1, 10_240, 98_304, 32_768)),
)


def instructions(rows: Iterable[tuple[int, int, int, int]]) -> list[Instructions]:
    return [
        Instructions(instructions=n, first=hex(at), executed=executed, wavefronts=took, ideal=0, tags=tags)
        for at, (n, executed, took, tags) in enumerate(rows)
    ]


def copying(addresses: list[Instructions] | None = None, **counted: float) -> LaunchRow:
    """The copies of A1 as an H200 counted them."""
    predicted = {
        "cp.async": {"ldgsts": 131_072, "ldgsts_wavefronts": 786_432, "ldgsts_sectors": 2_097_152},
        "past the last tile": {"ldgsts_off": 16_384},
    }
    seen = {"ldgsts": 131_119.0, "ldgsts_off": 16_337.0, "ldgsts_requests": 131_072.0, "lds": 2_097_152.0}
    seen |= {"ldgsts_sectors": 2_424_832.0, "lds_off": 96_519.0, **counted}
    return launch({"LDS": 2_195_456}, **seen).model_copy(
        update={"predicted": predicted, "addresses": instructions(A1_COPIES) if addresses is None else addresses}
    )


def test_wavefronts_of_copies_add_up_by_instruction() -> None:
    assert cause(copying(), "ldgsts_wavefronts") == (
        "proven by instruction: the first tile's copies count 0 (-49,152; why is open), those with every lane off "
        "25 each (+409,600); lines read are exact"
    )
    copies = copies_by_instruction(instructions(A1_COPIES))
    assert copies is not None
    assert (copies.lines, copies.wavefronts, copies.uncounted) == (786_432, 1_146_880, 8_192)
    assert copies.wavefronts - copies.lines == copies.beyond_total - copies.uncounted_lines


@pytest.mark.parametrize(
    "broken",
    [
        copying([]),
        copying(ldgsts_wavefronts=1_146_881.0),  # the sum by instruction is another
        copying(instructions((*A1_COPIES, (1, 1, 1, 1)))),  # a line more than the tiles hold
        copying(instructions(reversed(A1_COPIES))),  # those that count 0 are not the first
    ],
)
def test_wavefronts_of_copies_that_do_not_add_up_stay_open(broken: LaunchRow) -> None:
    assert standing(cause(broken, "ldgsts_wavefronts")) == "open"


def test_sectors_of_copies_follow_from_the_lines_seen_or_stay_open() -> None:
    assert cause(copying(), "ldgsts_sectors") == (
        "inferred: the same copies, the first tile's 0 (-131,072), those with every lane off 28 each (+458,752); "
        "adds up to the last sector"
    )
    assert standing(cause(copying(ldgsts_sectors=2_424_833.0), "ldgsts_sectors")) == "open"
    assert standing(cause(copying([]), "ldgsts_sectors")) == "open"


def test_the_chips_split_of_lanes_on_and_off_is_told_from_a_copy_too_many() -> None:
    for key in ("ldgsts", "ldgsts_off"):
        assert cause(copying(), key) == (
            "inferred: the chip's count of 'all lanes off' reads low, for LDS too; requests, and on + off, are exact"
        )
        assert standing(cause(copying(ldgsts=131_120.0), key)) == "open"
        assert standing(cause(copying(ldgsts_requests=131_073.0), key)) == "open"
    assert "for LDS too" not in cause(copying(lds_off=98_304.0), "ldgsts")


def test_a_counter_without_a_rule_is_open() -> None:
    assert standing(cause(launch(), "load_something")) == "open"
    assert standing(cause(copying(), "ldgsts_bytes")) == "open"


def test_bank_conflicts_by_instruction_leave_out_what_reads_global_memory() -> None:
    rows = instructions([(1, 10, 40, 99)])
    rows.append(Instructions(instructions=3, first="0x10", executed=10, wavefronts=40, ideal=10, tags=None))
    assert exact_conflicts(launch().model_copy(update={"addresses": rows})) == 90
    assert exact_conflicts(launch()) is None


def test_wavefronts_by_instruction_are_a_sum_or_nothing() -> None:
    assert exact_wavefronts(COUNTED, "load") == 1_572_864
    assert exact_wavefronts({"lds_wavefronts": 3.0}, "load") is None


def test_the_lsu_pipe_adds_up_but_for_three_reads_of_special_registers_a_warp() -> None:
    (row,) = lsu_rows(record(launch()))
    assert row["by_opcode"] == 888_832
    assert (row["left"], row["left_per_warp"], row["s2r_per_warp"]) == (6_144, 3, 4)
    assert lsu_rows(record(launch({}), launch(lsu_pipe=None))) == []


def test_instructions_with_the_same_figures_are_one_row_and_silent_ones_none() -> None:
    rows = grouped_addresses(
        {
            "executed_at": "50 (0x7f00: 9; 0x7f10: 10; 0x7f20: 10; 0x7f30: 11)",
            "wavefronts_at": "80 (0x7f10: 40; 0x7f20: 40)",
            "ideal_at": "80 (0x7f10: 40; 0x7f20: 40)",
            "tags_at": "5 (0x7f30: 5)",
        }
    )
    assert [(row.first, row.instructions, row.executed, row.wavefronts, row.tags) for row in rows] == [
        ("0x10", 2, 10, 40, None),
        ("0x30", 1, 11, None, 5),
    ]
    assert grouped_addresses({"executed_at": "50", "wavefronts_at": "n/a"}) == []
