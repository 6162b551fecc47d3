"""``bench-stats``: options in, text and exit status out; and the options that all three commands share.

May import all of stats; only the commands of micro and gemm import it.
"""
