"""``gemm-bench``: options in, text and exit status out.

May import all of gemm, micro and stats; nobody imports it.
"""
