"""The static proof: what the machine code of every architecture from sm_80 on holds, counted in the main loop.

32, 24, 8 and 8 loads per warp and k-step; ldmatrix only where the ladder says so; a sink that is there and small; no
spill; the same residency for all. Every architecture is compiled once.
"""

from __future__ import annotations

import re
import subprocess

import pytest

from micro.cli.static import describe_micro
from micro.code.counts import Kernel, analyse_cubin
from micro.code.cubin import read_resources
from micro.code.sass import disassemble
from micro.gpu.build import CUDA_DIR, compile_cubin
from micro.gpu.toolchain import disassembler, find_toolkit
from tests.ladder import LOADS, TOTAL
from tests.makers.compiled import EVERY_ARCH, KNOWN_ARCHS, SLOW_80_AND_90, offered

pytestmark = pytest.mark.cuda_build

REGISTERS_PER_KSTEP = 24  # 4 A fragments of 4, 4 B fragments of 2


@pytest.fixture(scope="module", params=EVERY_ARCH)
def kernels(request) -> list[Kernel]:
    """Kernels of micro.cu for one architecture."""
    if request.param not in offered():
        pytest.skip(f"nvcc {find_toolkit().version_text} does not offer sm_{request.param}")
    return analyse_cubin(compile_cubin(CUDA_DIR / "micro.cu", request.param), describe_micro)


def test_every_architecture_that_nvcc_offers_is_tested():
    assert set(offered()) <= set(KNOWN_ARCHS)


def test_the_whole_ladder_is_there(kernels):
    labels = sorted((k.labels["variant"], k.labels["swizzle"], k.labels["work"]) for k in kernels)
    works = ("load_mma", "load_only", "mma_only")
    assert labels == [(name, swizzle, work) for name in sorted(TOTAL) for swizzle in ("off", "on") for work in works]


def test_loads_per_kstep_are_32_24_8_8(kernels):
    for kernel in kernels:
        expected = {} if kernel.labels["work"] == "mma_only" else LOADS[kernel.labels["variant"]]
        row = kernel.row()
        found = {name: row[name] for name in row if name.startswith(("LDS.", "LDSM.")) and row[name]}
        assert found == expected, kernel.labels
        assert kernel.loop.loads == sum(expected.values())
        if expected:
            assert kernel.loop.loads == TOTAL[kernel.labels["variant"]]


def test_mma_per_kstep(kernels):
    for kernel in kernels:
        assert kernel.loop.per_kstep("HMMA") == (0 if kernel.labels["work"] == "load_only" else 16), kernel.labels


def test_every_loop_is_unrolled_alike(kernels):
    assert len({kernel.loop.ksteps for kernel in kernels}) == 1


def test_only_a1_packs(kernels):
    for kernel in kernels:
        packs = kernel.labels["variant"] == "A1" and kernel.labels["work"] != "mma_only"
        assert kernel.loop.per_kstep("PRMT") == (8 if packs else 0), kernel.labels


def test_no_address_is_computed_in_the_loop(kernels):
    for kernel in kernels:
        # the loop counter is all: one add a loop, in the uniform or the ordinary integer unit
        assert kernel.loop.counts.get("IADD", 0) + kernel.loop.counts.get("uniform", 0) <= 3, kernel.labels
        assert sum(kernel.loop.counts.get(name, 0) for name in ("IMAD", "LEA", "other", "local", "BAR")) == 0
        if kernel.labels["work"] == "load_mma":
            assert kernel.loop.counts.get("LOP3", 0) == 0, kernel.labels


def test_the_sink_is_there_and_small(kernels):
    for kernel in kernels:
        if kernel.labels["work"] != "load_only":
            continue
        assert kernel.loop.folded == REGISTERS_PER_KSTEP * kernel.loop.ksteps, kernel.labels
        assert kernel.loop.per_kstep("LOP3") == REGISTERS_PER_KSTEP / 2, kernel.labels  # three inputs each
        # four schedulers issue one instruction a cycle each; the port needs 24 cycles or more for the k-step's 3 KB
        assert kernel.loop.issue_slots / 4 < 24, kernel.labels


def test_nothing_spills(kernels):
    for kernel in kernels:
        assert (kernel.spill_instructions, kernel.resources.stack_bytes) == (0, 0), kernel.labels


def test_all_variants_are_equally_resident(kernels):
    blocks = {kernel.residency.blocks if kernel.residency else None for kernel in kernels}
    assert blocks in ({2}, {None})
    assert {kernel.shared_bytes for kernel in kernels} == {3 * 16384}


@pytest.mark.parametrize("arch", [*SLOW_80_AND_90, pytest.param(120, marks=pytest.mark.slow)])
def test_both_disassemblers_give_the_same_code(arch):
    if arch not in offered():
        pytest.skip(f"nvcc does not offer sm_{arch}")
    cubin = compile_cubin(CUDA_DIR / "micro.cu", arch)
    first, second = ({f.name: f for f in disassemble(cubin, tool)} for tool in ("cuobjdump", "nvdisasm"))
    assert first == second


@pytest.mark.parametrize("arch", [*SLOW_80_AND_90, pytest.param(120, marks=pytest.mark.slow)])
def test_resources_are_those_that_cuobjdump_reads(arch):
    if arch not in offered():
        pytest.skip(f"nvcc does not offer sm_{arch}")
    cubin = compile_cubin(CUDA_DIR / "micro.cu", arch)
    said = subprocess.run(
        [str(disassembler("cuobjdump")), "-res-usage", str(cubin)], capture_output=True, text=True, check=True
    ).stdout
    theirs = {m[1]: (int(m[2]), int(m[3])) for m in re.finditer(r"Function (\S+):\s+REG:(\d+) STACK:(\d+)", said)}
    ours = {name: (its.registers, its.stack_bytes) for name, its in read_resources(cubin).items()}
    assert ours == theirs


SPILLING = """
__shared__ float shared[256];
__global__ void __launch_bounds__(1024, 1) spilling(float* data, int n) {
  float value[128];
  for (int i = 0; i < 128; ++i) value[i] = data[i * n + threadIdx.x];
  shared[threadIdx.x % 256] = value[0];
  __syncthreads();
  for (int i = 0; i < 128; ++i) data[i * n + threadIdx.x] = value[127 - i] * value[i * 7 & 127] + shared[i];
}
"""


@pytest.mark.parametrize("arch", [80, 90])
def test_a_kernel_that_spills_is_seen(arch, tmp_path, monkeypatch):
    """The gate bites: stack, spill instructions and static shared memory of a kernel that needs all three."""
    if arch not in offered():
        pytest.skip(f"nvcc does not offer sm_{arch}")
    monkeypatch.setenv("SMEM_BENCH_CACHE", str(tmp_path))
    source = tmp_path / "spilling.cu"
    source.write_text(SPILLING)
    cubin = compile_cubin(source, arch, include_dirs=())
    (resources,) = read_resources(cubin).values()
    (function,) = disassemble(cubin)
    assert resources.stack_bytes > 0
    assert resources.static_shared_bytes == 1024
    assert sum(i.base in ("LDL", "STL") for i in function.instructions) > 0


@pytest.mark.slow
def test_a_loop_without_its_barrier_loses_its_loads(tmp_path, monkeypatch):
    """The gate bites: without the warp barrier ptxas lifts ld.shared out of the load-only loop, and that is refused."""
    monkeypatch.setenv("SMEM_BENCH_CACHE", str(tmp_path))
    for path in CUDA_DIR.glob("*.cuh"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    source = tmp_path / "micro.cu"
    text = (CUDA_DIR / "micro.cu").read_text()
    assert "    __syncwarp();\n" in text
    source.write_text(text.replace("    __syncwarp();\n", ""))
    with pytest.raises(Exception, match="no loop holds a shared-memory load"):
        analyse_cubin(compile_cubin(source, 80, include_dirs=(tmp_path,)), describe_micro)
