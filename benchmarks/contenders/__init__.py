"""Contenders of `benchmarks.search`: our search, parts of it, and optimizers of other libraries on its plan spaces."""
