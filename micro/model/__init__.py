"""The read path on paper: variants, arm names, layout (from ``layout.cuh``), banks, patterns, prediction.

Imports micro.gpu and what is below it.
"""
