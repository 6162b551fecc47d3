"""From an analysis to readers: tables by name, README blocks, the show page, HTML, export.

Imports analysis, record and base; knows micro and gemm by names alone (``tools``).
"""
