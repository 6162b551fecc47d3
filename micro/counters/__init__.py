"""Hardware counters by ncu beside what each launch must show: target, record, comparison, causes.

Imports micro.bench and what is below it.
"""
