"""The kernels measured against each other: config, correctness gate, arms, run, tables.

Imports gemm.kernel and what is below it.
"""
