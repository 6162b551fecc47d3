"""Banks and layouts drawn.

Imports micro.model and what is below it.
"""
