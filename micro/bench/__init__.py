"""The experiments of ``micro-bench``, one folder each, and what reports show of their records.

Imports micro.model, stats.report and what is below them.
"""
