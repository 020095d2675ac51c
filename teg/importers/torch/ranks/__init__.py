"""PyTorch modules that run on several processes: recorded for each rank, and joined to one program."""
