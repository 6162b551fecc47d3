"""Why is the difference what it is?

Simulator, roofline, attribution and claims, from records, machine code and addresses; only ``stream``, which measures
what L2 delivers, needs a GPU. The trap: an explanation fitted to the figures it explains predicts nothing, so every
prediction is printed beside the measurement and its error.
"""
