"""Benchmarks: each compares Tapestry with a peer or a limit in one run and writes its figures as JSON."""
