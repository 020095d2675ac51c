"""A search from its start to its result: initialization, rounds, checkpoints, workers."""
