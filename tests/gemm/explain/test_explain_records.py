"""Guide, attribution, measured parameters and errors on synthetic records."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gemm.cli.app import app
from gemm.explain import predict, roofline
from gemm.explain.attribution import attribute, attribution_rows
from gemm.explain.evidence import Evidence, gather
from gemm.explain.figures import machine_for
from gemm.explain.guide import Reading, Situation, read_pair, read_time
from gemm.explain.predict import prediction_rows
from gemm.explain.readings import readings
from gemm.explain.relief import relief_text
from gemm.kernel.variants import LADDER_PAIRS
from gemm.simulator import kernels
from gemm.simulator.machine import machine
from micro.model.arm_names import Work
from stats.analysis.levels import Level
from stats.base.errors import UserError
from stats.record.schema import Device, Record
from tests.makers import explain_records as made
from tests.makers.report_records import written

pytestmark = pytest.mark.usefixtures("few_passes")


def level(mean: float, half: float = 0.1) -> Level:
    return Level(mean, mean - half, mean + half, 0.95, 8, "processes")


@pytest.mark.parametrize(
    ("ceilings", "situation"),
    [
        ({"tensor": 31.0, "port": 24.0, "issue": 9.0, "L2": 20.0}, Situation.TENSOR),
        ({"tensor": 24.0, "port": 31.5, "issue": 9.0, "L2": 20.0}, Situation.PORT),
        ({"tensor": 24.0, "port": 24.0, "issue": 30.0, "L2": 20.0}, Situation.ISSUE),
        ({"tensor": 24.0, "port": 24.0, "issue": 9.0, "L2": 31.0}, Situation.L2),
        ({"tensor": 24.0, "port": 24.0, "issue": 9.0, "L2": 20.0}, Situation.NOT_RESOLVED),  # none explains it
        ({"tensor": 40.0, "port": 24.0, "issue": 9.0, "L2": 20.0}, Situation.NOT_RESOLVED),  # a ceiling that is wrong
    ],
)
def test_situations(ceilings: dict[str, float], situation: Situation) -> None:
    found = read_time(level(32.0), ceilings)
    assert found.situation is situation
    assert any(word in found.rule for word in ("highest ceiling", "below its own"))


@pytest.mark.parametrize(
    ("relief", "situation"),
    [
        ({"port": 20.0, "issue": 8.0, "tensor": 1.0, "L2": -2.0}, Situation.PORT),
        ({"port": 9.0, "issue": 8.0, "tensor": 1.0, "L2": 0.0}, Situation.NOT_RESOLVED),  # no clear lead
        (
            {"tensor": 36.0, "port": 8.0, "issue": 1.0, "L2": 0.0},
            Situation.NOT_RESOLVED,
        ),  # 24 of 60 cycles hide nothing
        ({"port": 4.0, "issue": 0.0, "tensor": 0.0, "L2": 0.0}, Situation.NOT_RESOLVED),  # too little
    ],
)
def test_where_no_ceiling_explains_the_time_relief_decides(relief: dict[str, float], situation: Situation) -> None:
    found = read_time(level(60.0), {"tensor": 24.0, "port": 32.0}, relief)
    assert found.situation is situation
    assert "twice as fast" in found.rule


def test_a_saving_below_half_a_per_cent_is_none() -> None:
    assert relief_text({"port": 7.6, "issue": -0.3}) == "port 8 %, issue 0 %"


def test_without_an_interval_nothing_is_resolved() -> None:
    bare = Level(32.0, math.nan, math.nan, 0.95, 1, "processes")
    assert read_time(bare, {"tensor": 32.0}).situation is Situation.NOT_RESOLVED
    assert read_time(None, {"tensor": 32.0}).situation is Situation.NOT_RESOLVED


PORT, TENSOR = Reading(Situation.PORT, "port rule"), Reading(Situation.TENSOR, "tensor rule")


@pytest.mark.parametrize(
    ("effect", "a", "b", "situation"),
    [
        ((0.1, -0.1, 0.3), TENSOR, TENSOR, Situation.TENSOR),  # hidden
        ((0.1, -0.1, 0.3), PORT, TENSOR, Situation.NOT_RESOLVED),
        ((9.0, 8.0, 10.0), PORT, TENSOR, Situation.PORT),  # what binds the slower arm, a
        ((-9.0, -10.0, -8.0), TENSOR, PORT, Situation.PORT),  # the slower arm is b
        ((-9.0, -10.0, -8.0), PORT, TENSOR, Situation.NOT_RESOLVED),  # what shows is not hidden
        ((1.0, -1.0, 3.0), PORT, PORT, Situation.NOT_RESOLVED),
        (None, PORT, PORT, Situation.NOT_RESOLVED),
    ],
)
def test_pairs(effect: tuple[float, float, float] | None, a: Reading, b: Reading, situation: Situation) -> None:
    assert read_pair(effect, a, b, margin_percent=0.5).situation is situation


@pytest.mark.cuda_build
def test_a_record_is_read_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "predict_gemm", functools.partial(predict.predict_gemm, shape=made.SMALL))
    found = made.evidence(
        micro_record=made.micro(A1_load=32.1, A3_load=24.1, A1_both=33.0, A3_both=33.0, mma=32.0),
        gemms=(made.gemm(A1=45.0, A3=33.0),),
        stream=made.stream(60, 60),
    )
    read = {name: reading.situation for name, _, reading in readings(90, found)}
    assert read["micro A3:load+mma, 2 blocks/SM"] is Situation.TENSOR
    assert read["gemm A1"] is Situation.NOT_RESOLVED  # the tensor cores would save most, busy 71 % of the time
    assert read["gemm A1 against A3"] is Situation.NOT_RESOLVED  # it shows, so it is not hidden
    assert read["gemm A3"] is Situation.TENSOR
    assert readings(80, found) == []


def test_measured_parameters_replace_the_tables_and_say_so() -> None:
    found = made.evidence(micro_record=made.micro(mma=26.0), stream=made.stream(natural=35.0, transposed=45.0))
    natural, transposed = machine_for(90, found, variant="A3"), machine_for(90, found, variant="A2L")
    assert natural.mma_interval_cycles == pytest.approx(6.5, rel=1e-3)
    assert natural.sources["mma_interval_cycles"] == "mma-only kernel"
    assert (natural.l2_bytes_per_clk, transposed.l2_bytes_per_clk) == pytest.approx((35.0, 45.0), rel=1e-3)
    assert natural.barrier_cycles == pytest.approx(25, rel=1e-3)
    assert machine_for(80, found) == machine(80)  # another architecture keeps its table


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(UserError, match="sm_75"):
        machine_for(75, Evidence())


@pytest.mark.cuda_build
def test_errors_are_those_of_predicted_against_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "predict_gemm", functools.partial(predict.predict_gemm, shape=made.SMALL))
    found = made.evidence(micro_record=made.micro(A2_load=24.0, A3_load=48.0, mma=24.0))
    rows = {(row["figure"], row["arm"]): row for row in prediction_rows(90, found, blocks=(2,))}
    assert abs(rows["load", "A2:load"]["error_percent"]) < 2
    assert rows["load", "A2:load"]["within"] == "within 2 %"
    assert rows["load", "A3:load"]["within"] == "MISSES 2 %"
    assert rows["load", "A3:load"]["error_percent"] == pytest.approx(-50, abs=1)


@pytest.mark.cuda_build
def test_parts_add_up_to_the_total() -> None:
    found = made.evidence(
        micro_record=made.micro(A1_both=36.0, A2_both=26.0, A2L_both=25.0, A3_both=25.0, mma=24.0),
        gemms=(made.gemm(A1=50.0, A2=44.0, A2L=43.0, A3=40.0),),
        stream=made.stream(),
    )
    parts = {part.name: part for part in attribute("A1", "A2", 90, found)}
    assert parts["total"].cycles == pytest.approx(6, rel=1e-3)
    assert parts["read path"].cycles == pytest.approx(10, rel=1e-3)
    assert parts["global→shared form"].cycles == pytest.approx(-3, rel=1e-2)  # what A2L costs more than A3
    assert parts["residency"].cycles == 0
    assert parts["unexplained"].cycles == pytest.approx(-1, abs=0.05)
    assert sum(p.cycles for p in parts.values() if p.counts) == pytest.approx(2 * parts["total"].cycles)
    assert parts["unexplained"].half_width > parts["total"].half_width > 0
    assert attribute("A2", "A2L", 90, found)[2].cycles == 0  # one form


@pytest.mark.cuda_build
def test_without_its_pair_the_form_is_simulated_and_counts_only_where_copies_bind() -> None:
    def form(natural: float, transposed: float) -> float:
        found = made.evidence(gemms=(made.gemm(A1=60.0, A2=60.0),), stream=made.stream(natural, transposed))
        part = next(part for part in attribute("A2", "A1", 90, found) if part.name == "global→shared form")
        assert part.source == "simulated"
        return part.cycles

    assert 0 < form(40, 40) < 8  # lines alone
    assert form(40, 15) > 10  # transposed copies are slower and bind it


@pytest.mark.cuda_build
def test_residency_is_charged_where_it_differs() -> None:
    found = made.evidence(gemms=(made.gemm(resident={"A1": 1}, A1=55.0, A3=40.0),))
    parts = {part.name: part for part in attribute("A1", "A3", 90, found)}
    # A3 runs two blocks, so A1 − A3 holds what A3 gains by the second.
    assert parts["residency"].cycles > 0
    assert math.isnan(parts["residency"].half_width)


def test_without_a_gemm_record_nothing_is_attributed() -> None:
    assert attribution_rows(90, made.evidence(micro_record=made.micro(A1_both=36.0))) == []


def test_records_of_two_gpus_are_refused(tmp_path: Path) -> None:
    other = Device(name="Other GPU", uuid="GPU-1", compute_capability="8.0", sm_count=108)
    for name, device in (("a", made.GPU), ("b", other)):
        found = made.record("gemm-bench", {"A3": {}}, workload=made.SHAPE, device=device)
        written(found, tmp_path / f"{name}.jsonl")
    with pytest.raises(UserError, match="several GPUs"):
        gather([tmp_path], named=True)
    one = gather([tmp_path / "b.jsonl"], named=True)
    assert (one.arch, one.sm_count, one.device) == (80, 108, "Other GPU")


def test_the_record_with_the_fewest_other_arms_speaks() -> None:
    wide, narrow = made.gemm(A1=50.0, A3=40.0, A2=45.0, A2L=42.0), made.gemm(A1=51.0, A3=41.0)
    found = made.evidence(gemms=(wide, narrow))
    assert found.gemm_record("A1", "A3") is narrow
    assert found.gemm_record("A2", "A3") is wide
    assert found.gemm_record("A1", "A3", shape=(128, 128, 32)) is None


def test_the_ladders_own_record_speaks_for_its_pairs() -> None:
    """Not a smaller or newer one that holds the arms by the way, nor a declared one of fewer processes."""
    arms = {"A1": 50.0, "A2": 45.0, "A2L": 42.0, "A3": 40.0}

    def declared(pairs: list[tuple[str, str]], processes: int) -> Record:
        found = made.gemm(**arms)
        header = found.header.model_copy(update={"comparisons": pairs, "processes": processes})
        return Record(header=header, cells=found.cells, events=found.events)

    by_the_way, few, ladder = declared([], 8), declared(list(LADDER_PAIRS), 4), declared(list(LADDER_PAIRS), 8)
    found = made.evidence(gemms=(by_the_way, few, ladder))
    assert found.gemm_record(*arms) is ladder
    assert found.gemm_record("A1", "A3") is ladder
    assert found.gemm_record("A3") is ladder


def test_without_machine_code_only_what_was_measured_is_attributed_and_read() -> None:
    found = made.evidence(
        micro_record=made.micro(A1_load=32.1, A3_load=24.1, A1_both=33.0, A3_both=33.0, mma=32.0),
        gemms=(made.gemm(resident={"A1": 1}, A1=45.0, A3=33.0),),
        stream=made.stream(60, 60),
    )
    parts = attribute("A1", "A3", 90, found, simulates=False)
    assert [part.name for part in parts] == ["total", "global→shared form"]  # read path at one block: no record
    same = made.evidence(micro_record=found.micro[2], gemms=(made.gemm(A1=45.0, A3=33.0),))
    names = [part.name for part in attribute("A1", "A3", 90, same, simulates=False)]
    assert names == ["total", "read path", "global→shared form", "residency", "unexplained"]
    read = {name: reading for name, _, reading in readings(90, found, machine_code=False)}
    assert read["micro A3:load+mma, 2 blocks/SM"].situation is Situation.TENSOR
    assert read["gemm A3"].situation is Situation.TENSOR
    assert "issue is not counted" in read["gemm A3"].rule


def test_the_command_prints_what_records_give_without_a_disassembler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(*_: object) -> Path:
        raise UserError("nvdisasm: not found; pip install 'smem-bench[toolchain]'")

    for name in ("disassembler", "find_toolkit"):
        monkeypatch.setattr(kernels, name, absent)
    written(made.gemm(A1=45.0, A3=33.0), tmp_path / "gemm.jsonl")
    result = CliRunner().invoke(app, ["explain", "--record", str(tmp_path)])
    assert result.exit_code == 0
    assert "no ceilings, predictions or simulated parts: nvdisasm: not found; pip install" in result.stderr
    assert "A1 − A3" in result.stdout
    assert "how to read each arm" in result.stdout
    assert "predictions, SM cycles" not in result.stdout
    data = json.loads(CliRunner().invoke(app, ["explain", "--record", str(tmp_path), "--format", "json"]).stdout)
    assert "toolchain" in data["missing"]
    empty = CliRunner().invoke(app, ["explain", "--record", str(tmp_path), "--arch", "80"])
    assert "nothing to explain from records alone" in str(empty.exception)


def test_newer_records_win(tmp_path: Path) -> None:
    for created, cycles in (("2026-01-01T00:00:00Z", 30.0), ("2026-02-01T00:00:00Z", 20.0)):
        found = made.micro(A3_load=cycles)
        found.header = found.header.model_copy(update={"created_utc": created})
        written(found, tmp_path / f"{created[:7]}.jsonl")
    newest = gather([tmp_path], named=False).micro_level("A3", Work.LOAD)
    assert newest is not None
    assert newest.mean == pytest.approx(20, rel=1e-2)
