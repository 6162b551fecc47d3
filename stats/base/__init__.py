"""What everything stands on: errors, tables, configs, whole files.

Imports nothing else of the suite; everything may import it.
"""
