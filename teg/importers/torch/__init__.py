"""PyTorch programs: exported programs, `.pt2` archives, joint graphs and their dumps; only live objects need torch."""
