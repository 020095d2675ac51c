"""Names of exchanges on pages, by those of the API."""

EXCHANGES = {
    "all_gather": "all-gather",
    "all_reduce": "all-reduce",
    "reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "fetch": "fetch of pieces",
    "send": "send between stages",
    "send_recv": "pieces between pairs",
}


def named(cause: str) -> str:
    """Name kinds of exchanges, or a class of kernels or exchanges (`all_gather on gpu`), as pages do."""
    parts = [one.partition(" on ") for one in cause.split(" + ")]
    return " + ".join(f"{EXCHANGES.get(name, name)}{on}{place}" for name, on, place in parts)
