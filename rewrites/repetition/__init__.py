"""Rules that spare memory: late readers of a value have it computed again, or from the host; and that take this back.

Activation recomputation (gradient checkpointing) is many such moves, one per block that the backward pass needs again.
"""
