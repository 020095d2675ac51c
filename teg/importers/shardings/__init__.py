"""Shardings from other programs, read as pins of a search."""
