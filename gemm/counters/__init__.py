"""What ncu counts of a GEMM launch, and what it must count.

Imports gemm.ladder, micro.counters and what is below them.
"""
