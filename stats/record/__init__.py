"""The record of a run, its ``.jsonl``: schema, writer, reader, attempts, sources and their freshness.

Imports base alone.
"""
