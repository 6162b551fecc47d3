"""What the compiler made: cubins, SASS, the main loop and what it holds.

Imports micro.model and what is below it; runs nothing.
"""
