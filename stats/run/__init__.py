"""Runs arms against each other in fresh processes and writes the record: design, order, worker, clocks, progress.

Imports record and base.
"""
