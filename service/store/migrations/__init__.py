"""The migrations of the tables, oldest first; databases are stamped with the last one applied.

This list is all that a program needs in order to check that a database is up to date; Alembic is loaded
only when one is not. A migration, once released, is never changed: it works on the tables as they were then.
The way back is in `steps_back`: every new migration gets an entry there.
"""

FIRST = "0001"
REVISIONS = (
    FIRST,
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    "0012",
    "0013",
    "0014",
    "0015",
    "0016",
    "0017",
    "0018",
    "0019",
    "0020",
    "0021",
    "0022",
    "0023",
    "0024",
    "0025",
    "0026",
    "0027",
    "0028",
    "0029",
    "0030",
    "0031",
    "0032",
    "0033",
    "0034",
    "0035",
    "0036",
    "0037",
)
HEAD = REVISIONS[-1]

__all__ = ["FIRST", "HEAD", "REVISIONS"]
