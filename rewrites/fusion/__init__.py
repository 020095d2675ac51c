"""Fusion: one block computes several, and fewer tensors go through memory. One topic per file."""
