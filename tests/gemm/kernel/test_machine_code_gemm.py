"""The static proof for the GEMM: its main loops hold 32, 24, 8 and 8 loads per warp and k-step on every architecture.

The main table's group (with all four STAGES) is compiled for every architecture; the departures and one group of the
other load mode, type and swizzle for two, as they differ in what surrounds the same read path.
"""

from __future__ import annotations

import pytest

from gemm.kernel.compiled import compiled_kernels, kernel_of
from gemm.kernel.variants import Kernel as GemmKernel
from gemm.kernel.variants import every_kernel
from micro.code.counts import Kernel
from micro.gpu.limits import LIMITS
from micro.gpu.toolchain import find_toolkit
from tests.ladder import LOADS, TOTAL
from tests.makers.compiled import EVERY_ARCH, SLOW_80_AND_90, offered

pytestmark = pytest.mark.cuda_build


def count(kernels: list[GemmKernel], arch: int) -> list[Kernel]:
    if arch not in offered():
        pytest.skip(f"nvcc {find_toolkit().version_text} does not offer sm_{arch}")
    return compiled_kernels(kernels, [arch])


def of_group(*groups: str) -> list[GemmKernel]:
    return [kernel for kernel in every_kernel() if kernel.group in groups]


@pytest.fixture(scope="module", params=EVERY_ARCH)
def main_table(request) -> list[Kernel]:
    return count(of_group("bf16_cp_async_swizzled"), request.param)


@pytest.fixture(scope="module", params=SLOW_80_AND_90)
def others(request) -> list[Kernel]:
    return count(of_group("departures", "fp16_ld_global_unswizzled"), request.param)


def stages_of(kernel: Kernel) -> int:
    return next((int(part[7:]) for part in kernel.labels["build"].split("/") if part.startswith("stages=")), 3)


def assert_read_path(kernel: Kernel) -> None:
    """What every kernel of the ladder must hold, whatever surrounds its read path."""
    variant, row = kernel.labels["variant"], kernel.row()
    found = {name: row[name] for name in row if name.startswith(("LDS.", "LDSM.")) and row[name]}
    assert found == LOADS[variant], kernel.labels
    assert kernel.loop.loads == TOTAL[variant]
    assert kernel.loop.per_kstep("HMMA") == 16
    assert kernel.loop.per_kstep("PRMT") == (8 if variant == "A1" else 0), kernel.labels
    assert kernel.loop.ksteps == 2 * stages_of(kernel), "the loop is unrolled over the ring"
    assert (kernel.spill_instructions, kernel.resources.stack_bytes) == (0, 0), kernel.labels


def test_main_table_and_its_stages(main_table):
    builds = sorted((kernel.labels["variant"], stages_of(kernel)) for kernel in main_table)
    assert builds == [(variant, stages) for variant in sorted(TOTAL) for stages in (1, 2, 3, 4)]
    for kernel in main_table:
        assert_read_path(kernel)
        one_stage = stages_of(kernel) == 1
        assert kernel.loop.per_kstep("BAR") == (1 if one_stage else 0.5), "two barriers a tile with one stage, else one"
        assert kernel.loop.per_kstep("LDGSTS") == 2, "four chunks of 16 bytes a lane and tile"
        assert kernel.loop.per_kstep("STS") == kernel.loop.per_kstep("LDG") == 0


def test_variants_are_equally_resident(main_table):
    for stages in (1, 2, 3, 4):
        same = [kernel for kernel in main_table if stages_of(kernel) == stages]
        assert {kernel.shared_bytes for kernel in same} == {stages * 16384}
        assert max(kernel.resources.registers for kernel in same) <= 128
        blocks = {kernel.residency.blocks for kernel in same if kernel.residency}
        if same[0].arch not in LIMITS:
            assert blocks == set()
        else:
            # two blocks by their registers, where 100 KB of shared memory hold two rings: four stages take 64 KB
            room = LIMITS[same[0].arch].shared_bytes // (stages * 16384 + 1024)
            assert blocks == {min(2, room)}


def test_departures_and_the_other_load_mode(others):
    expected = {"ld_global": 0, "departures": 0}
    for kernel in others:
        assert_read_path(kernel)
        if "ld_global" in kernel.labels["build"]:
            expected["ld_global"] += 1
            assert (kernel.labels["swizzle"], "fp16" in kernel.labels["build"]) == ("off", True)
            assert kernel.loop.per_kstep("STS") == kernel.loop.per_kstep("LDG") == 2
            assert kernel.loop.per_kstep("LDGSTS") == 0
        else:
            expected["departures"] += 1
            assert kernel.loop.per_kstep("LDGSTS") == 2
        if "uncapped" not in kernel.labels["build"]:
            assert kernel.resources.registers <= 128
    assert expected == {"ld_global": 4 * len(TOTAL), "departures": 5 * len(TOTAL)}


def test_without_the_cap_variants_are_not_equally_resident(others):
    """Why every variant is compiled to two blocks: left alone, A1 takes registers that leave room for one."""
    uncapped = {k.labels["variant"]: k for k in others if k.labels["build"] == "uncapped"}
    assert set(uncapped) == set(TOTAL)
    blocks = {name: kernel.residency.blocks for name, kernel in uncapped.items() if kernel.residency}
    assert blocks["A1"] == 1
    if uncapped["A1"].arch == 80:
        assert blocks == {name: 1 if name == "A1" else 2 for name in TOTAL}


@pytest.mark.parametrize("kernel", list(every_kernel(["A2L"])), ids=lambda kernel: kernel.name)
def test_names_are_read_back_from_mangled_ones(kernel):
    element = {"bf16": "13__nv_bfloat16", "fp16": "6__half"}[kernel.dtype]
    numbers = (
        f"LN6layout8ReadModeE1ELNS2_7BLayoutE1EL8LoadMode{int(kernel.load_mode)}ELi{kernel.stages}ELb{int(kernel.swizzle)}E"
        f"L8Epilogue{int(kernel.epilogue)}EL8Schedule{int(kernel.schedule)}EL4Wait{int(kernel.wait)}ELi{kernel.blocks_per_sm}E"
    )
    assert kernel_of(f"_ZN3_GL11gemm_kernelI{element}{numbers}EvPKT_SB_PS9_iii") == kernel
