"""The claims under test as they were put before any run, and what is right where they are not: text, no figures.

Figures that depend on a GPU are in the findings. The trap: a sentence here that a record could contradict would be a
second verdict, so these say only what follows from addresses, machine code and the order of operations.
"""

from __future__ import annotations

from textwrap import dedent

CLAIMS = {
    1: "Loads per warp per k-step are 32 / 24 / 8 / 8 in the machine code, on every architecture built for.",
    2: "All variants move the same bytes from shared memory, and their outputs are bitwise equal.",
    3: "The A side has no bank conflict under SWZ_A, for ld.shared as for ldmatrix.",
    4: "A1's B side: a b16 read touches 8 banks, ~4-way conflict, unswizzled; ~2-way with SWZ_B.",
    5: "A2's B side has no conflict.",
    6: "A1's B-side conflict is a main cause of its lag.",
    7: "Shared-memory read traffic is ~75 % of the port at tensor peak on A100 (24 of 32 cycles per warp k-step).",
    8: "The effect on the 4096³ GEMM is 1–5 %, or hidden altogether.",
    9: "The simple epilogue costs under 1 % at 4096³.",
    10: "wait_group<0> at STAGES=3 degrades the pipeline to a single buffer.",
    11: "STAGES=4 needs 64 KB of dynamic shared memory and the opt-in attribute.",
    12: "The expected counters (drafts in configs/counters.yaml) exist and say what is expected.",
}

_RIGHT = {
    1: """
        In the main loop, per k-step. Counting otherwise, LDS and LDSM over the whole library, gives another
        number: the loop is unrolled over six k-steps, and before each group of cp.async ptxas writes three dead LDS
        guarded by @!PT.""",
    2: """
        Equal bytes are not equal port time: a b16 read moves 64 bytes in a wavefront that could carry 128, so A1 holds
        the port for 32 cycles per warp k-step where the others hold it for 24.""",
    3: "As claimed.",
    4: """
        A b16 read of natural B takes 8 neighbours in n (16 bytes, 4 banks) from 4 rows of k, and every row starts at
        bank 0: 4 banks with 4 words each, a 4-way conflict. SWZ_B sends the 4 rows to 4 different groups of banks: 16
        banks, two lanes share each word, 1 wavefront. The claim counts lanes where distinct words decide.""",
    5: "As claimed: BsT has the pitch and the swizzle of A.",
    6: """
        With SWZ_B A1's B side has no conflict. A1 reads B with 16 half-empty wavefronts where A2 needs 8, and packs 8
        registers beside them. Without the swizzle the conflict is a cause.""",
    7: """
        For reads, A2, A2L and A3 on A100: yes. A1 already fills the port. What cp.async brings would be 8 more
        wavefronts per warp k-step by its addresses. Loads and copies side by side say whether it takes as
        much of the loads' port (on H200 it takes less); for A100 that is not known.""",
    8: """
        The instruction alone (A2 against A2L) and the whole ladder (A1 against A3) are two questions with two answers:
        A1's B side costs a third more port time, which only another binding resource could hide.""",
    9: "The cost is what the staged epilogue would save; a negative figure says that it saves nothing.",
    10: """
        It degrades to two buffers, not to one: the tile just asked for still arrives under one tile's mma, because the
        wait comes before the next request and not after it. Three stages are then worth about what two are: it
        costs what the third stage saves, and that depends on the variant.""",
    11: "As claimed. STAGES=3 takes exactly 48 KB, which needs no opt-in.",
    12: """
        A name that a chip does not have is listed with the name that answers its question. A conflict counter above
        zero for A1 with the swizzle would contradict the verdicts on claims 4 and 6.""",
}
RIGHT = {number: " ".join(dedent(text).split()) for number, text in _RIGHT.items()}
