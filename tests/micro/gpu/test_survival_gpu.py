"""On a GPU: what only a device can refuse or break, and what the doctor says of a machine that has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from micro.bench.read_path.library import SOURCE, MicroLibrary
from micro.doctor.examine import diagnose
from micro.gpu.cells import function_arms
from micro.gpu.cuda_driver import cuda_driver
from stats.base.errors import BenchError, UserError
from stats.record.reader import read_record
from stats.run.spec import TrialSpec
from stats.run.trials import run_trials

pytestmark = pytest.mark.gpu


def test_a_library_without_code_for_this_gpu_is_refused_before_launch_naming_both() -> None:
    import torch

    from gemm.kernel.library import GemmLibrary, build_gemm
    from gemm.kernel.variants import Kernel
    from micro.gpu.build import build_library
    from micro.model.arm_names import Work

    major, minor = torch.cuda.get_device_capability()
    other = 80 if major != 8 else 90
    torch.zeros(1, device="cuda")
    says = rf"the library holds code for sm_{other}, this GPU is sm_{major}{minor} .*; build it for sm_{major}{minor}$"
    with pytest.raises(UserError, match=f"^A3: resources: {says}"):
        GemmLibrary(build_gemm([Kernel("A3")], [other])).resources(Kernel("A3"))
    with pytest.raises(UserError, match=f"^asking for resources: {says}"):
        MicroLibrary(build_library("micro", [SOURCE], archs=[other])).resources(0, Work.LOAD, 49152)
    assert torch.zeros(3, device="cuda").sum().item() == 0  # the context is as good as before


def faulting_functions() -> Mapping[str, Callable[[], object]]:
    import torch

    data, far = torch.zeros(4, device="cuda"), torch.tensor([1 << 20], device="cuda")

    def good() -> object:
        return data.add(1)

    calls: list[int] = []

    def faulty() -> object:
        calls.append(1)
        return data[far] if len(calls) > 3 else data.add(1)

    return {"good": good, "faulty": faulty}


def test_a_kernel_that_faults_stops_the_run_with_its_name_and_the_cells_so_far_survive(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    factory = function_arms(faulting_functions, launches=1)
    spec = TrialSpec(tool="test", reference="good", twin="good.twin", processes=1, blocks=8, warmup_blocks=0)
    with pytest.raises(BenchError, match="arm faulty"):
        run_trials(spec, factory, out=out)
    record = read_record(out)
    assert [cell.arm for cell in record.cells].count("faulty") == 3
    assert record.events[-1].event == "failed"


def test_the_doctor_knows_every_device_by_its_uuid_and_changes_nothing() -> None:
    driver = cuda_driver()
    assert driver is not None
    assert driver.start() is None
    findings = diagnose()
    for device in driver.devices():
        identity = [found for found in findings if found.topic == f"GPU {device.index}" and "UUID" in found.detail]
        assert len(identity) == 1
        assert f"sm_{device.arch}, {device.sm_count} SMs" in identity[0].detail
        assert "unknown to NVML" not in identity[0].detail
    assert [found.status for found in findings if found.topic == "driver"] == ["ok"]
    assert {"clocks", "counters"} <= {found.topic for found in findings}
