"""``python -m stats`` is ``bench-stats``; from a checkout it needs no install, but the packages of pyproject.toml."""

import sys

try:
    from stats.cli import main
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] in ("stats", "micro", "gemm"):
        raise
    print(f"bench-stats: {missing.name} is not installed; make bench, or pip install -e .", file=sys.stderr)
    sys.exit(2)

main()
