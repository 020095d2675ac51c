"""Exact placement: sums of costs of single strategies and of pairs, minimized with a certified gap.

Imported by `optimizer.run` and by benchmarks; it knows compiled spaces, but no archive and no run.
"""
