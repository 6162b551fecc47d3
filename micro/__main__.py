"""``python -m micro`` is ``micro-bench``."""

from micro.cli import main

main()
