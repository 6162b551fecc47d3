"""Does the reader of machine code find the loop, count it right, and refuse what it does not understand?

Small hand-written programs, in the text form of both disassemblers; every rule is shown to bite by one that breaks it.
"""

from __future__ import annotations

import pytest

from micro.code.counts import category, count_loop, registers_folded
from micro.code.loops import main_loop, natural_loops
from micro.code.sass import Function, Instruction, SassError, parse_sass
from micro.model.layout import layout
from stats.base.errors import UserError

KERNEL = "_Z6kernelPfi"


def program(text: str) -> tuple[list[str], dict[str, int]]:
    """Lines of ``label: instruction`` or ``instruction`` as instructions and label addresses."""
    code: list[str] = []
    labels: dict[str, int] = {}
    for line in text.strip().splitlines():
        label, _, rest = line.strip().rpartition(": ")
        if label:
            labels[label] = 16 * len(code)
        code.append(rest)
    return code, labels


def as_cuobjdump(text: str, arch: int = 80, name: str = KERNEL) -> str:
    code, labels = program(text)
    lines = [f"\tcode for sm_{arch}", f"\t\tFunction : {name}", '\t.headerflags\t@"EF_CUDA_SM80"']
    for i, instruction in enumerate(code):
        for label, address in labels.items():
            instruction = instruction.replace(f"@{label}@", f"{address:#x}")
        lines += [
            f"        /*{16 * i:04x}*/    {instruction} ;   /* 0x00000a00ff017624 */",
            "    /* 0x000fe400078e00ff */",
        ]
    return "\n".join(lines)


def as_nvdisasm(text: str, arch: int = 80, name: str = KERNEL) -> str:
    code, labels = program(text)
    lines = [f"\t.target\tsm_{arch}", f'\t.section\t.text.{name},"ax",@progbits', f".text.{name}:", f"{name}:"]
    for i, instruction in enumerate(code):
        for label, address in labels.items():
            if address == 16 * i:
                lines.append(f".L_x_{label}:")
            instruction = instruction.replace(f"@{label}@", f"`(.L_x_{label})")
        lines.append(f"        /*{16 * i:04x}*/    {instruction} ;")
    return "\n".join(lines)


def function(text: str) -> Function:
    (only,) = parse_sass(as_cuobjdump(text))
    return only


def is_mma(instruction: Instruction) -> bool:
    return instruction.base == "HMMA"


MMA = "HMMA.16816.F32.BF16 R4, R8, R2, R4"


def kstep(*, mma: bool, loads: str = "ldmatrix", sink: bool = False) -> str:
    """One k-step of a 64 x 32 warp tile."""
    lines = {
        "ldmatrix": ["LDSM.16.M88.4 R8, [R1]"] * 4 + ["LDSM.16.MT88.2 R2, [R1+0x40]"] * 4,
        "a1": ["LDS R8, [R1]"] * 16 + ["LDS.U16 R9, [R1]"] * 16 + ["PRMT R2, R9, 0x5410, R10"] * 8,
        "none": [],
    }[loads]
    lines = lines + ([MMA] * 16 if mma else []) + (["LOP3.LUT R3, R8, R9, R3, 0x96, !PT"] * 12 if sink else [])
    return "\n".join(lines)


def looped(body: str, back: str = "@!P0 BRA @top@") -> str:
    before, after = "MOV R1, c[0x0][0x28]\nCS2R R4, SRZ", "STG.E [R2], R3\nEXIT\nend: BRA @end@"
    return f"{before}\ntop: NOP\n{body}\nIADD3 R0, R0, 0x1, RZ\n{back}\n{after}"


LOOP_WITH_BRANCHES = """
S2R R0, SR_TID.X
@P1 BRA @after@
outer: LDG.E R2, [R4]
inner: HMMA.16816.F32 R4, R8, R2, R4
BSSY B0, @join@
@P2 BRA @cold@
sync: BSYNC B0
join: ISETP.GE.AND P0, PT, R0, R5, PT
@!P0 BRA @inner@
BRA.U UP0, @outer@
after: STG.E [R2], R3
EXIT
cold: PRMT R2, R9, 0x5410, R10
BRA @sync@
end: BRA @end@
"""


SIDE_ENTRY = "@P0 BRA @middle@\n" + looped(kstep(mma=True)).replace("IADD3 R0", "middle: IADD3 R0")
TWO_LOOPS = "\n".join(f"top{i}: NOP\n{kstep(mma=True)}\n@!P0 BRA @top{i}@" for i in range(2)) + "\nEXIT"


@pytest.mark.parametrize("text", [looped(kstep(mma=True)), LOOP_WITH_BRANCHES])
def test_both_disassemblers_read_the_same(text):
    assert parse_sass(as_cuobjdump(text)) == parse_sass(as_nvdisasm(text))


def test_instructions_are_read_whole():
    code = function("@!P0 LDSM.16.MT88.2 R8, [R2+UR4+0x40]\nBRA.U UP0, @x@\nx: EXIT").instructions
    assert code[0] == Instruction(0, "!P0", "LDSM.16.MT88.2", ("R8", "[R2+UR4+0x40]"))
    assert (code[0].base, code[0].modifiers) == ("LDSM", ("16", "MT88", "2"))
    assert code[1] == Instruction(16, None, "BRA.U", ("UP0", "0x20"), 0x20)


def test_two_functions_are_kept_apart():
    text = as_cuobjdump("EXIT", name="first") + "\n" + as_cuobjdump("NOP\nEXIT", name="second")
    assert [(f.name, len(f.instructions)) for f in parse_sass(text)] == [("first", 1), ("second", 2)]


def test_cold_blocks_and_inner_loops_belong_where_control_flow_says():
    kernel = function(LOOP_WITH_BRANCHES)
    loops = natural_loops(kernel)
    assert [loop.header for loop in loops] == [0x20, 0x30]  # the idle loop at the end is none
    inner = main_loop(kernel, is_mma, "an mma")
    assert inner.header == 0x30
    assert [i.base for i in inner.instructions] == ["HMMA", "BSSY", "BRA", "BSYNC", "ISETP", "BRA", "PRMT", "BRA"]
    assert inner in loops[0]


def test_a_loop_left_through_a_call_is_found():
    kernel = function(looped(kstep(mma=True), "@P0 CALL.REL.NOINC @out@\nBRA @top@\nout: NOP"))
    assert count_loop(kernel, loads=True, mma=True).ksteps == 1


@pytest.mark.parametrize("unrolled", [1, 2, 6])
@pytest.mark.parametrize("rotated", [False, True])
def test_counts_do_not_depend_on_unrolling_or_rotation(unrolled, rotated):
    steps = "\n".join([kstep(mma=True)] * unrolled)
    body = steps.splitlines()
    if rotated:  # half a k-step before the loop, the other half first in it
        body = body[12:] + body[:12]
    text = looped("\n".join(body))
    if rotated:
        text = "\n".join(steps.splitlines()[:12]) + "\n" + text
    counts = count_loop(function(text), loads=True, mma=True)
    assert counts.ksteps == unrolled
    assert (counts.loads, counts.per_kstep("HMMA")) == (8, 16)
    assert (counts.per_kstep("LDSM.x4"), counts.per_kstep("LDSM.x2.trans"), counts.per_kstep("LDSM.x2")) == (4, 4, 0)
    assert counts.issue_slots == 24 + 3 / unrolled


def test_loads_alone_are_normalised_by_the_bytes_they_move():
    counts = count_loop(
        function(looped("\n".join([kstep(mma=False, loads="a1", sink=True)] * 3))), loads=True, mma=False
    )
    assert (counts.ksteps, counts.loads, counts.per_kstep("PRMT"), counts.folded) == (3, 32, 8, 72)


def test_loads_outside_the_loop_are_not_counted():
    counts = count_loop(function("LDS R9, [R1]\n" + looped(kstep(mma=True)) + "\nLDS R9, [R1]"), loads=True, mma=True)
    assert counts.loads == 8


@pytest.mark.parametrize(
    ("text", "loads", "mma", "complaint"),
    [
        (f"{kstep(mma=True)}\nEXIT\nend: BRA @end@", True, True, "no loop at all"),
        (looped(kstep(mma=False)), True, True, "no loop holds an mma"),
        # what ptxas does to ld.shared that no barrier holds in the loop
        (kstep(mma=False) + "\n" + looped("LOP3.LUT R3, R8, R9, R3, 0x96, !PT"), True, False, "no loop holds a shared"),
        (TWO_LOOPS, True, True, "2 loops hold an mma"),
        (looped("\n".join([MMA] * 15)), False, True, "0.9375 by mma k-steps"),
        (looped(kstep(mma=True) + "\nLDSM.16.M88.4 R8, [R1]"), True, True, "1 by mma and 1.16667 by bytes loaded"),
        (looped(kstep(mma=True) + "\n" + kstep(mma=False)), True, True, "1 by mma and 2 by bytes loaded"),
        (looped(kstep(mma=True)), False, True, "loop that should only run mma"),
        (looped(kstep(mma=False, sink=True) + "\n" + MMA), True, False, "loop that should only load"),
        (looped(kstep(mma=False)), True, False, "24 registers and its sink consumes 0"),
        (looped(kstep(mma=False, sink=True)).replace("0x96", "0xfe"), True, False, "sink consumes 0"),
        (looped(kstep(mma=False, sink=True)).replace("R8, R9, R3", "R8, R8, R3"), True, False, "sink consumes 12"),
        (looped(kstep(mma=True).replace("16816", "1688")), True, True, "not the m16n8k16 mma"),
        (looped(kstep(mma=True).replace("LDSM.16.M88.4", "LDSM.8.M816.4")), True, True, "unknown form of LDSM"),
        (looped(kstep(mma=True, loads="a1").replace("LDS.U16", "LDS.U.256")), True, True, "unknown form of LDS"),
        (looped(kstep(mma=True) + "\nBRA.DIV UR4, @top@"), True, True, "slow path for diverged warps"),
        (looped(kstep(mma=True) + "\nBRX R4 -0x40"), True, True, "indirect branch"),
        (SIDE_ENTRY, True, True, "two entries"),
        (looped(kstep(mma=True)).replace("@top@", "0xffff0"), True, True, "leaves the function"),
        ("BSYNC B0\n" + looped(kstep(mma=True)), True, True, "without a BSSY"),
    ],
)
def test_what_would_be_miscounted_is_refused(text, loads, mma, complaint):
    with pytest.raises(SassError, match=complaint) as caught:
        count_loop(function(text), loads=loads, mma=mma)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no function"),
        ("\tcode for sm_80\n", "no function"),
        (as_cuobjdump("EXIT").replace("code for sm_80", ""), "no architecture"),
        (as_nvdisasm("BRA @x@\nx: EXIT").replace(".L_x_x:", ""), "target of"),
        (as_cuobjdump("BRA somewhere\nEXIT"), "target of"),
    ],
)
def test_text_that_is_no_disassembly_is_refused(text, complaint):
    with pytest.raises(SassError, match=complaint):
        parse_sass(text)


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("LDS", "LDS.32"),
        ("LDS.U16", "LDS.16"),
        ("LDS.S8", "LDS.8"),
        ("LDS.64", "LDS.64"),
        ("LDS.128", "LDS.128"),
        ("LDSM.16.M88", "LDSM.x1"),
        ("LDSM.16.M88.2", "LDSM.x2"),
        ("LDSM.16.MT88.4", "LDSM.x4.trans"),
        ("HMMA.16816.F32", "HMMA"),
        ("PRMT", "PRMT"),
        ("LOP3.LUT", "LOP3"),
        ("IMAD.MOV.U32", "IMAD"),
        ("LEA.HI", "LEA"),
        ("IADD3.X", "IADD"),
        ("VIADD", "IADD"),
        ("UIADD3", "uniform"),
        ("LDGSTS.E.BYPASS.128", "LDGSTS"),
        ("LDGDEPBAR", "DEPBAR"),
        ("DEPBAR.LE", "DEPBAR"),
        ("BAR.SYNC.DEFER_BLOCKING", "BAR"),
        ("LDG.E.128", "LDG"),
        ("STS.128", "STS"),
        ("STL", "local"),
        ("LDL.64", "local"),
        ("ISETP.GE.AND", "control"),
        ("NOP", "NOP"),
        ("MUFU.RCP", "other"),
    ],
)
def test_categories(opcode, expected):
    assert category(Instruction(0, None, opcode, ())) == expected


def test_a_load_that_never_runs_is_no_load():
    assert category(Instruction(0, "!PT", "LDS", ("RZ", "[RZ]"))) == "never"
    assert category(Instruction(0, "!P0", "LDS", ("R2", "[R3]"))) == "LDS.32"
    counts = count_loop(function(looped(kstep(mma=True) + "\n" + "@!PT LDS RZ, [RZ]\n" * 3)), loads=True, mma=True)
    assert (counts.loads, counts.counts["never"]) == (8, 3)


def test_the_sink_counts_registers_not_constants():
    loop = main_loop(
        function(
            looped(
                "LDS R8, [R1]\nLOP3.LUT R3, R8.reuse, R9, R3, 0x96, !PT\nLOP3.LUT R3, R8, R3, RZ, 0x3c, !PT\n"
                "LOP3.LUT R3, R8, 0x3c, RZ, 0xc0, !PT\nLOP3.LUT P1, RZ, R8, 0x96, RZ, 0xc0, !PT"
            )
        ),
        lambda i: i.base == "LDS",
        "a load",
    )
    assert registers_folded(loop) == 3


def test_kstep_of_the_texts_is_that_of_the_layout():
    sizes = layout().constants
    assert (sizes.m_fragments * sizes.n_fragments, sizes.bytes_per_kstep) == (16, 4 * 512 + 4 * 256)


def test_sass_errors_are_failures_not_bad_input():
    assert not issubclass(SassError, UserError)
