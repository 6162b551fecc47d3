"""Why is the difference what it is? Evidence, prediction, roofline, attribution, guide, fit.

Imports gemm.simulator, gemm.ladder and what is below them.
"""
