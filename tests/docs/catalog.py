"""The page `docs/generated/operators.md`; `python -m tests.docs.catalog` writes it from the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tapestry.teg.arrays.kernels import KERNELS
from tapestry.teg.arrays.promotion import is_common
from tapestry.teg.builder import define
from tapestry.teg.dtypes import NAMES
from tapestry.teg.graph import TensorType
from tapestry.teg.operators import OPERATORS
from tapestry.teg.operators.expressions import CELL_FUNCTIONS
from tapestry.teg.operators.operator import Operator
from tapestry.teg.signature import PARALLEL, Signature, rows_of
from tests.docs.generated import FOLDER, page, write

BOUNDARY = ("source", "sink", "sequence_point")


def operator_table() -> str:
    """Build a table with an example per operator: tensors, parallel and combined dimensions, and those read whole."""
    lines = [
        "| operator | for example | in parallel | combined | read or written whole |",
        "| --- | --- | --- | --- | --- |",
    ]
    shown = sorted((o for o in OPERATORS if o.name not in BOUNDARY), key=lambda o: o.name)
    return "\n".join([*lines, *(f"| `{o.name}` | {' | '.join(_facts(o))} |" for o in shown)])


def _facts(operator: Operator) -> Iterator[str]:
    """Yield the cells of an operator's row, from the example with the most dimensions."""
    found = []
    for example in operator.examples:
        definition, outputs = define(operator.name, example.attributes, example.inputs)
        found.append((definition.signature, example.inputs, outputs))
    signature, inputs, outputs = max(found, key=lambda f: len(f[0].dims) if f[0] is not None else -1)
    yield f"{', '.join(map(_shape, inputs)) or 'nothing'} → {', '.join(map(_shape, outputs))}"
    if signature is None:
        yield from ("-", "-", "everything: a fixed block")
        return
    yield ", ".join(f"{d.name}={d.size}" for d in signature.dims if d.kind == PARALLEL) or "-"
    yield ", ".join(f"{d.name}={d.size} by {d.kind}" for d in signature.dims if d.kind != PARALLEL) or "-"
    yield ", ".join(_whole(signature, inputs, outputs)) or "-"


def _shape(kind: TensorType) -> str:
    return f"[{', '.join(map(str, kind.shape))}]"


def _whole(
    signature: Signature, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]
) -> Iterator[str]:
    """Yield the dimensions that every part of the index space needs all of."""
    sides = (("input", signature.inputs, inputs), ("output", signature.outputs, outputs))
    for side, projections, types in sides:
        for k, (projection, kind) in enumerate(zip(projections, types, strict=True)):
            places = [
                str(d)
                for d, (row, size) in enumerate(zip(rows_of(projection), kind.shape, strict=True))
                if size > 1 and (row is None or (row.dim < 0 and row.extent == size))
            ]
            if places:
                yield f"{side} {k}: {', '.join(places)}"


def cell_table() -> str:
    """Build the table of cell functions with their flops per element."""
    lines = ["| flops | functions |", "| --- | --- |"]
    for flops in sorted({f.flops for f in CELL_FUNCTIONS.values()}):
        names = sorted(name for name, f in CELL_FUNCTIONS.items() if f.flops == flops)
        lines.append(f"| {flops:g} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join(lines)


def host_list() -> str:
    """Build the list of operators whose meaning numpy alone knows, with their functions where these have names."""
    lines = []
    for o in sorted((o for o in OPERATORS if o.host_only), key=lambda o: o.name):
        given = (dict(e.attributes) for e in o.examples)
        names = dict.fromkeys(g["function"] for g in given if "function" in g)
        lines.append(f"- `{o.name}`{': ' if names else ''}{', '.join(f'`{n}`' for n in names)}")
    return "\n".join(lines)


def host_table() -> str:
    """Build the table of the functions that numpy computes for other libraries, by element types."""
    rows: dict[str, list[str]] = {}
    for dtype in NAMES:
        host = sorted(name for name in CELL_FUNCTIONS if not is_common(name, dtype))
        others = sorted(set(CELL_FUNCTIONS) - set(host))
        text = ", ".join(f"`{name}`" for name in (host if len(host) < len(others) else others))
        if host:
            shown = text if len(host) < len(others) else f"all but {text}" if others else "all"
            rows.setdefault(shown, []).append(f"`{dtype}`")
    lines = ["| element types | functions that numpy computes |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {', '.join(dtypes)} | {text} |" for text, dtypes in rows.items())])


def kernel_table() -> str:
    """Build the table of library functions that compute what an operation means, by operation."""
    lines = ["| operation | library | function |", "| --- | --- | --- |"]
    rows = sorted(KERNELS, key=lambda k: (k.operation, k.library))
    return "\n".join([*lines, *(f"| {k.operation} | {k.library} | `{k.function}` |" for k in rows)])


def operators_page() -> str:
    """Build the page of operators and cell functions."""
    return page(
        "Operators",
        "tests.docs.catalog",
        "[The graph language](../language.md) explains the terms of this page.",
        "Each row shows an operator with one example: the shapes of its tensors, the index dimensions that are "
        "parallel, those that a monoid combines, and the tensor dimensions that every part reads or writes whole.",
        operator_table(),
        "## Cell functions",
        "The functions of a cell, by the flops that one element counts (McMahon's weights).",
        cell_table(),
        "## Kernels of libraries",
        "Where a library has a function for the following, that function computes it (`teg/arrays/kernels.py`); numpy "
        "spells all of it out. `attention` is a fused block of scores that are scaled and added to, a softmax, and a "
        "weighted sum, in float32 or float64. `{rank}` is the number of spatial dimensions.",
        kernel_table(),
        "## Computed by numpy",
        "Under torch or JAX, numpy computes the following on the host. Everything else runs in the library, on its "
        "device, but that torch leaves all computing with uint16, uint32 and uint64 to numpy. Operators:",
        host_list(),
        "Functions of a cell:",
        host_table(),
    )


PAGES: dict[Path, Callable[[], str]] = {FOLDER / "operators.md": operators_page}

if __name__ == "__main__":
    write(PAGES)
