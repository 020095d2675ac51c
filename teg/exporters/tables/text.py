"""Parts of the Python modules that state a table: their docstring, and dictionaries by the tensors' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tapestry.teg.exporters.tables.table import INTERMEDIATE, OUTPUT, ShardingTable, TensorSharding
from tapestry.teg.exporters.tables.verdicts import read_tensors
from tapestry.teg.python_text import docstring, quoted, visible


def heading(table: ShardingTable, what: str) -> str:
    """Return the docstring of a module: what it states, and of which plan."""
    mesh = ", ".join(f"{visible(name)}={size}" for name, size in table.mesh)
    part = f" (the devices {table.devices})" if table.devices else ""
    plan = f"plan {table.plan} of " if table.plan else ""
    lines = [f"{what} for {plan}{visible(table.program)} on a mesh of {mesh}{part}.", ""]
    lines += ["Devices count row-major over the mesh's axes; tensors have the program's names."]
    if table.micro_batches:
        lines += [
            f"The plan runs in micro-batches, {visible(table.micro_batches)}: their slices are divided so."
        ]
    return docstring("\n".join(lines))


def dictionary(name: str, entries: Mapping[str, str], notes: Mapping[str, str] | None = None) -> list[str]:
    """Return the lines that define a dictionary of expressions by name, with a note behind each."""
    if not entries:
        return [f"{name} = {{}}"]
    notes = notes or {}
    lines = [f"    {quoted(key)}: {value},{_comment(notes.get(key, ''))}" for key, value in entries.items()]
    return [f"{name} = {{", *lines, "}"]


def reads(
    table: ShardingTable,
    fault: Callable[[ShardingTable, TensorSharding], str],
    expression: Callable[[ShardingTable, TensorSharding], str],
) -> dict[str, str]:
    """Return for each value the dictionary of what is moved before it is made, but for what has a fault."""
    found = {}
    for tensor in table.of_roles([INTERMEDIATE, OUTPUT]):
        moved = [
            f"{quoted(name)}: {expression(table, read)}"
            for name, read in read_tensors(table, tensor).items()
            if not fault(table, read)
        ]
        if moved:
            found[tensor.name] = f"{{{', '.join(moved)}}}"
    return found


def axis_sizes(table: ShardingTable) -> str:
    """Return the line that defines the mesh's axes and sizes."""
    return f"AXES = {{{', '.join(f'{quoted(name)}: {size}' for name, size in table.sizes.items())}}}"


def _comment(text: str) -> str:
    return f"  # {visible(text)}" if text else ""


def sizes(shape: Sequence[int], dtype: str) -> str:
    """Return a tensor's type as text, such as `float32[8, 16]`."""
    return f"{dtype}[{', '.join(map(str, shape))}]"
