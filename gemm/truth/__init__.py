"""Campaigns in which the truth is known: A/A and injected differences.

Imports gemm.ladder and what is below it.
"""
