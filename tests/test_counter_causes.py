"""A cause is given only where the figures show it. The figures are those of an H200, at m = n = 2048, k = 512."""

from __future__ import annotations

import pytest

from micro.counter_addresses import grouped_addresses
from micro.counter_causes import cause, exact_wavefronts, lsu_rows
from micro.counter_record import CountersRecord, LaunchRow
from stats.records import Device

PREDICTED = {"main loop": {"ldsm_wavefronts": 1_572_864, "load_wavefronts": 1_572_864}}
COUNTED = {
    "load_wavefronts": 1_573_369.0,
    "lds_wavefronts": 0.0,
    "ldsm_wavefronts": 1_572_864.0,
    "load_conflicts": 505.0,
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


def test_an_excess_that_the_pipe_counts_as_conflicts_and_no_instruction_took_is_the_pipes() -> None:
    for key in ("load_wavefronts", "load_conflicts"):
        assert cause(launch(), key) == "the pipe's: conflicts of no instruction, one for one"


@pytest.mark.parametrize(
    "counted",
    [
        {"ldsm_wavefronts": 1_572_865.0},  # an instruction did take one more
        {"ldsm_wavefronts": None},  # not counted: nothing is shown
        {"load_conflicts": None},
        {"load_wavefronts": 1_572_863.0},  # fewer than the instructions took: no excess
    ],
)
def test_without_the_evidence_a_difference_is_not_explained(counted: dict[str, float | None]) -> None:
    assert cause(launch(**counted), "load_wavefronts") == "not explained"


def test_what_is_left_of_the_copies_wavefronts_is_shared_among_those_with_every_lane_off() -> None:
    predicted = {"cp.async": {"ldgsts_wavefronts": 786_432}, "past the last tile": {"ldgsts_off": 16_384}}
    copies = launch(ldgsts_off=16_384.0).model_copy(update={"predicted": predicted})
    assert cause(copies, "ldgsts_wavefronts").endswith("16,384 copies with every lane off, at stale addresses: 22 each")
    for counted in ({"ldgsts_off": 0.0}, {"ldgsts_off": 16_385.0}, {"ldgsts_wavefronts": 786_432 + 33 * 16_384.0}):
        other = copies.model_copy(update={"counted": {**copies.counted, **counted}})
        assert cause(other, "ldgsts_wavefronts") == "not explained"


def test_other_counters_have_no_rule() -> None:
    assert cause(launch(), "ldgsts_wavefronts") == "not explained"
    assert cause(launch(), "load_something") == "not explained"


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
