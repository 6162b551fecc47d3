"""All that must know the GPU or its toolkit: nvcc and its cache, driver, device, limits, cell timer, ncu.

Imports stats.run and what is below it; knows no variant and no address formula.
"""
