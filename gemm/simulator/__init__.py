"""One SM, cycle by cycle: machine, program, memory, operands, the loop.

Imports gemm.kernel and what is below it; knows no record.
"""
