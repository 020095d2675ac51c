"""Rules that compute a value again for its late readers instead of storing it meanwhile, and that take this back.

Activation recomputation (gradient checkpointing) is many such moves, one per block that the backward pass needs again.
"""
