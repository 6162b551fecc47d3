"""What is missing or odd on this machine, each finding with its remedy.

Imports micro.gpu and what is below it.
"""
