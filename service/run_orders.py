"""Orders of lists of runs; in a module of its own, for the command line starts without the store."""

RUN_ORDERS = ("created", "program", "mesh", "status", "time", "memory")
