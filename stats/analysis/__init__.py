"""From cells to verdicts: exclusion, intervals, inference, comparison, diagnostics, plan.

Imports record and base; never the runner, so that a record is judged without what made it.
"""
