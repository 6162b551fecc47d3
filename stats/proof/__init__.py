"""Simulated worlds that hold the analysis to its rates.

Imports analysis and what is below it; nobody imports it.
"""
