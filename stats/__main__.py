"""``python -m stats`` is ``bench-stats``."""

from stats.cli import main

main()
