"""Latency and throughput of each shared-memory load; part of the room ``micro.bench``."""
