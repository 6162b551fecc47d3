"""Mangled names as compilers write them, limits as the guide gives them, resources, and files that are no cubin."""

from __future__ import annotations

import struct

import pytest

from micro.code.cubin import Instance, parse_instance, read_resources
from micro.gpu.limits import LIMITS, Residency, resident_blocks
from stats.base.errors import UserError

MICRO = (
    "_ZN40_GLOBAL__N__af11e3aa_8_micro_cu_8cd0ed8912micro_kernelILN6layout8ReadModeE1ELNS1_7BLayoutE0ELb1ELNS_4WorkE2E"
    "EEvPKtiPNS_8WarpSpanEPj"
)


@pytest.mark.parametrize(
    ("mangled", "function", "expected"),
    [
        (MICRO, "micro_kernel", (1, 0, 1, 2)),
        (MICRO.replace("Lb1E", "Lb0E"), "micro_kernel", (1, 0, 0, 2)),
        ("_Z6kernelIiLi3EEvv", "kernel", ("i", 3)),
        ("_Z6kernelILin12ELj7EEvv", "kernel", (-12, 7)),
        ("_Z4gemmI13__nv_bfloat16L8ReadMode0EEvv", "gemm", ("__nv_bfloat16", 0)),
        ("_Z4gemmI6__halfLN1a8LoadModeE1ELS2_0ELb1EEvPT_", "gemm", ("__half", 1, 0, 1)),
        ("_Z4gemmISt4byteLi2EEvv", "gemm", ("byte", 2)),
        (MICRO, "kernel", None),
        (MICRO, "gather_kernel", None),
        ("_Z12micro_kernelPf", "micro_kernel", None),
    ],
)
def test_template_arguments_are_read_from_the_mangled_name(mangled, function, expected):
    found = parse_instance(mangled, function)
    assert found == (None if expected is None else Instance(function, expected))


@pytest.mark.parametrize(
    "mangled",
    [
        MICRO[: MICRO.index("ELb1")],
        MICRO[: MICRO.index("Lb1E") + 3],
        "_Z12micro_kernelI4TileIiEEvv",
        "_Z12micro_kernelIPiEvv",
        "_Z12micro_kernelILf3f800000EEvv",
    ],
)
def test_a_name_that_is_cut_or_of_an_unknown_kind_is_refused(mangled):
    with pytest.raises(ValueError, match="template arguments"):
        parse_instance(mangled, "micro_kernel")


def elf_header(machine: int, size: int = 64) -> bytes:
    header = bytearray(size)
    header[:5] = b"\x7fELF\x02"
    struct.pack_into("<H", header, 18, machine)
    struct.pack_into("<Q", header, 40, 64)
    struct.pack_into("<HHH", header, 58, 64, 3, 1)
    return bytes(header)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not a cubin"),
        (b"no ELF at all, but long enough to hold a header" * 4, "not a cubin"),
        (elf_header(62), "not a cubin"),  # x86-64
        (elf_header(190), "damaged"),
        (elf_header(190, 200), "damaged"),
    ],
)
def test_a_file_that_is_no_cubin_takes_one_line(tmp_path, content, complaint):
    path = tmp_path / "file.cubin"
    path.write_bytes(content)
    with pytest.raises(UserError, match=complaint) as caught:
        read_resources(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_cubin_takes_one_line(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_resources(tmp_path / "none.cubin")


@pytest.mark.parametrize(
    ("arch", "registers", "threads", "shared_bytes", "expected"),
    [
        (80, 128, 256, 48 * 1024, Residency(2, "registers")),
        (80, 129, 256, 48 * 1024, Residency(1, "registers")),
        (80, 32, 256, 48 * 1024, Residency(3, "shared memory")),
        (86, 32, 256, 48 * 1024, Residency(2, "shared memory")),  # 2 x 49 of 100 KiB
        (86, 32, 256, 49 * 1024 + 1, Residency(1, "shared memory")),
        (86, 32, 256, 99 * 1024, Residency(1, "shared memory")),
        (86, 32, 256, 99 * 1024 + 1, Residency(0, "shared memory")),
        (80, 16, 1024, 0, Residency(2, "warps")),
        (89, 16, 1024, 0, Residency(1, "warps")),
        (80, 16, 32, 0, Residency(32, "blocks")),
        (86, 16, 32, 0, Residency(16, "blocks")),
        (80, 168, 384, 0, Residency(1, "registers")),
        (120, 255, 256, 0, Residency(1, "registers")),
    ],
)
def test_resident_blocks(arch, registers, threads, shared_bytes, expected):
    assert resident_blocks(arch, registers=registers, threads=threads, shared_bytes=shared_bytes) == expected


def test_an_architecture_without_published_limits_gets_no_figure():
    assert resident_blocks(88, registers=32, threads=256, shared_bytes=0) is None


@pytest.mark.parametrize("arch", LIMITS)
def test_limits_agree_with_each_other(arch):
    limits = LIMITS[arch]
    # a register file of 65536 feeds 32 threads of each warp with 32 or, where 48 warps are allowed, 40 registers
    assert limits.warps * 32 in (1536, 2048)
    assert limits.blocks <= limits.warps
    assert limits.shared_bytes_per_block < limits.shared_bytes <= 228 * 1024
