"""What must each read path of the ladder take? Counted by hand, and stated once for every test that counts.

Loads of one warp k-step: 4 fragments of A with 4 registers each and 4 of B with 2, where ``ldmatrix`` fills a fragment
at once and a 16-bit read fills half a register. The trap: a figure taken from the model or the compiler would agree
with them whatever they say, so none here is computed from either.
"""

from __future__ import annotations

LOADS = {  # as the machine code names them
    "A1": {"LDS.32": 16, "LDS.16": 16},
    "A2": {"LDS.32": 24},
    "A2L": {"LDSM.x4": 4, "LDSM.x2": 4},
    "A3": {"LDSM.x4": 4, "LDSM.x2.trans": 4},
}
TOTAL = {name: sum(loads.values()) for name, loads in LOADS.items()}
WAVEFRONTS_A_AND_B = {  # variant: with the swizzle on, and off
    "A1": ((16, 16), (64, 64)),
    "A2": ((16, 8), (64, 32)),
    "A2L": ((16, 8), (64, 32)),
    "A3": ((16, 8), (64, 64)),
}
WAVEFRONTS = {name: sum(swizzled) for name, (swizzled, _) in WAVEFRONTS_A_AND_B.items()}
WAVEFRONTS_NO_SWIZZLE = {name: sum(plain) for name, (_, plain) in WAVEFRONTS_A_AND_B.items()}
