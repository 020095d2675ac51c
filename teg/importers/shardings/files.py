"""Shardings read from files: a table in JSON, a Python module, StableHLO, or tensors with a `metal_layout`."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path

from tapestry.teg.arguments import PATH, check_arguments
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.shardings.metal_file import LAYOUT, from_metal_layouts
from tapestry.teg.importers.shardings.python_file import from_python
from tapestry.teg.importers.shardings.shardy_file import from_shardy
from tapestry.teg.importers.shardings.stated import ShardingError, StatedShardings
from tapestry.teg.importers.shardings.table_file import from_table


def _from_mlir(path: Path) -> StatedShardings:
    """Read tensors with a `metal_layout`, or else a StableHLO module."""
    with path.open("rb") as file:
        is_metal = file.read(2) == b"//" and LAYOUT.encode() in file.read(LARGEST_BYTES)
    return from_metal_layouts(path.read_text(encoding="utf-8")) if is_metal else from_shardy(path)


READERS: dict[str, Callable[[Path], StatedShardings]] = {
    ".json": lambda path: from_table(path.read_bytes()),
    ".py": lambda path: from_python(path.read_text(encoding="utf-8")),
    ".txt": lambda path: from_metal_layouts(path.read_text(encoding="utf-8")),
    ".mlir": _from_mlir,
    ".mlir.gz": from_shardy,
    ".mlirbc": from_shardy,
}
LARGEST_BYTES = 2**28


def read_shardings(path: str | PathLike[str]) -> StatedShardings:
    """Read the shardings that a file states.

    Raises:
        ArgumentError: no path.
        ShardingError: no such file, another ending, or a file that cannot be read; names the file.
    """
    check_arguments({"path": PATH}, {"path": path})
    file, shown = Path(path), repr(fspath(path))
    reader = next((read for ending, read in READERS.items() if file.name.lower().endswith(ending)), None)
    if reader is None:
        raise ShardingError(f"{shown}: expected a file of shardings, ending in {', '.join(READERS)}")
    try:
        if file.stat().st_size > LARGEST_BYTES:
            raise ShardingError(f"{shown} is larger than {LARGEST_BYTES} bytes")
        return reader(file)
    except ShardingError as error:
        raise ShardingError(*(f"{shown}: {fault}" for fault in error.faults)) from error
    except (ImportFailure, UnicodeDecodeError) as error:
        raise ShardingError(f"{shown}: {' '.join(str(error).split())}") from error
    except OSError as error:
        raise ShardingError(f"cannot read {shown}: {error.strerror or error}") from error
