"""``python -m gemm`` is ``gemm-bench``."""

from gemm.cli import main

main()
