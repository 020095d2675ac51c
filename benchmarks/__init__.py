"""Benchmarks: each compares with a peer or a limit in one run and writes its figures as JSON."""
