"""Import of PyTorch: exported programs, `.pt2` archives, joint graphs and dumps; only live objects need torch."""
