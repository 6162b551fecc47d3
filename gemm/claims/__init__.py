"""The twelve claims under test, each with its verdict.

Imports gemm.explain, micro.counters and what is below them.
"""
