"""Which GEMM kernels there are: names, arguments, build and launch, operands, what the compiler made of them.

Imports micro.code, micro.bench and what is below them.
"""
