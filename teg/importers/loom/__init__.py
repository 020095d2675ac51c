"""Loom JSON: Tapestry's first format, with Tensor, Operation and Application nodes."""
