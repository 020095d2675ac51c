"""Orders of lists of runs; in a module of its own, for the command line starts without the store."""

from typing import Literal, get_args

# Ascending, or with `-` descending.
# fmt: off
Sort = Literal[
    "created", "program", "mesh", "status", "time", "memory",
    "-created", "-program", "-mesh", "-status", "-time", "-memory",
]
# fmt: on
SORTS: tuple[Sort, ...] = get_args(Sort)
RUN_ORDERS = tuple(sort for sort in SORTS if not sort.startswith("-"))
