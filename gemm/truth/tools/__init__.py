"""The same question asked of other benchmarking tools; part of the room ``gemm.truth``."""
