"""``micro-bench``: options in, text and exit status out.

May import all of micro and stats; only the commands of gemm import it.
"""
