"""Sources that exported programs copy from, one module per library."""
