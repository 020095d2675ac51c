"""The command line that fits and predictions of published measurements share: files of rows, and where results go."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measurements.rows import DamagedRowsError, Measurement, read_rows


def read_command_line(
    description: str | None,
    json_help: str,
    write_help: str = "",
    arguments: Sequence[str] | None = None,
    leave_out_help: str = "",
) -> tuple[argparse.Namespace, list[Measurement]]:
    """Return the arguments `files`, `json` and, with helps for them, `write` and `leave_out`; and all rows.

    Ends the program with all faults of the rows where any is damaged.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="files of measurements, JSON")
    if write_help:
        parser.add_argument("--write", action="store_true", help=write_help)
    if leave_out_help:
        parser.add_argument("--leave-out", choices=("source",), help=leave_out_help)
    parser.add_argument("--json", type=Path, help=json_help)
    found = parser.parse_args(arguments)
    try:
        return found, read_rows(found.files)
    except DamagedRowsError as error:
        parser.exit(2, "".join(f"{fault}\n" for fault in error.faults))
