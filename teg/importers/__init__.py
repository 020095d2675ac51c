"""Importers: programs of other formats as graphs. A format's library is loaded when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from tapestry.teg.arguments import (
    COUNT,
    FUNCTION,
    PATH,
    SIZES,
    TEXT,
    TEXTS_BY_NAME,
    WHOLE,
    ArgumentKind,
    check_arguments,
    optional,
    several,
)
from tapestry.teg.document import MAX_BLOCKS, MAX_BYTES, from_document, json_values
from tapestry.teg.graph import Graph
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.stored_state import with_stored_state
from tapestry.teg.validate import check

__all__ = ["ImportFailure", "from_jax", "from_json", "from_loom", "from_onnx", "from_stablehlo", "from_torch"]

# The arguments of the importers.
ARGUMENTS = {
    "function": FUNCTION,
    "dims": optional(SIZES),
    "name": optional(TEXT),
    "external_data": optional(PATH),
    "roles": optional(TEXTS_BY_NAME),
    "carries": optional(TEXTS_BY_NAME),
    "unroll_limit": COUNT,
    **dict.fromkeys(
        ("static_argnums", "donate_argnums"), several(WHOLE, "a whole number, or a list of them")
    ),
    "static_argnames": several(TEXT, "a text, or a list of texts"),
}
ONNX = ArgumentKind(
    "a model: a path, bytes or a ModelProto",
    lambda value: isinstance(value, (str, PathLike, bytes)) or hasattr(value, "SerializeToString"),
)
STABLEHLO = ArgumentKind(
    "a module: its text, its bytes or a path", lambda value: isinstance(value, (str, PathLike, bytes))
)

# A loop is unrolled while its trips have at most so many operations together.
UNROLL_LIMIT = 32768


def from_onnx(
    source: str | Path | bytes | Any,
    *,
    dims: Mapping[str, int] | None = None,
    name: str | None = None,
    external_data: str | Path | None = None,
) -> Graph:
    """Import an ONNX model, given as a path, as bytes or as a `ModelProto`.

    `dims` are the sizes of symbolic dimensions. Small constants are folded, masks and other large constants
    become generators, reshapes and transpositions are absorbed into factored tensors: a source or sink whose
    shape was refined has the original one in its attribute `logical_shape` (see `teg.interface`).

    Data in other files is read from the folder `external_data` and from nowhere else; without it such a model is
    refused. Models have at most 2 GiB and 250,000 nodes, functions expanded.

    Raises:
        ArgumentError: arguments of another type.
        ImportFailure: the file is missing, truncated or foreign, a dimension has no size, or operators are
            unsupported; the message is one line that states which and where.
    """
    check_arguments(
        {"source": ONNX, **ARGUMENTS},
        {"source": source, "dims": dims, "name": name, "external_data": external_data},
    )
    from tapestry.teg.importers.onnx_import import import_onnx

    return import_onnx(source, dims, name, external_data)


def from_loom(source: str | Path | bytes | Mapping[str, Any], *, name: str | None = None) -> Graph:
    """Import a Loom document (Tensor, Operation and Application nodes): a path, text, bytes or JSON values.

    Kernels that are known here become operators; others become blocks of the operator `external`, which keep
    their signature but refuse to be evaluated. Shards are checked and left out.

    Raises:
        ImportFailure: the file is missing or no JSON, or the graph breaks a constraint of its dialect (then an
            `InvalidLoom` that lists every issue).
    """
    from tapestry.teg.importers.loom.reading import import_loom

    return import_loom(source, name)


def from_torch(
    source: Any,
    *example: Any,
    name: str | None = None,
    roles: Mapping[str, str] | None = None,
    carries: Mapping[str, str] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Graph:
    """Import a PyTorch program.

    `source` is an `ExportedProgram`; a module or function with `example` arguments, which is exported; a
    `GraphModule` of core ATen operators, such as a joint forward and backward graph; or a path: a `.pt2` archive,
    torch's JSON of an exported program, a node list of `torch.fx` (both also `.gz`). Files are read without torch,
    and nothing in them is executed or unpickled.

    Sources are named as the program's signature names parameters, buffers and constants, else after the user's
    arguments. Sinks are the user's outputs in order, named after their nodes; gradients are `NAME.grad`; the next
    value of a state is `NAME.next` and carries the source. `roles` assign roles to inputs (a key stands for an input or
    for all below it, `weights` for `weights_0`), `carries` maps outputs to the input whose next value they are; where
    only roles are specified, that is recognized by dataflow. `dims` are the sizes of the symbols of dynamic shapes.
    Operators that draw random numbers are refused.

    Raises:
        ArgumentError: arguments of another type.
        ImportFailure: the file is missing, damaged or foreign, shapes are dynamic, or operators are unsupported;
            the message is one line that states which and where.
    """
    check_arguments(ARGUMENTS, {"name": name, "roles": roles, "carries": carries, "dims": dims})
    from tapestry.teg.importers.torch_import import import_torch

    return import_torch(source, example, name, roles, carries, dims)


def from_json(
    text: str | bytes, *, max_blocks: int = MAX_BLOCKS, max_bytes: int = MAX_BYTES, name: str | None = None
) -> Graph:
    """Load the valid graph of a JSON text: a TEG document, a Loom document (with `nodes`), or a PyTorch program.

    `name` is for programs of PyTorch, which have none (see `from_torch`).

    Raises:
        DocumentError, InvalidGraphError: no document, or a graph that breaks a rule of the language.
        ImportFailure: a Loom document that breaks one of its own, or a program that cannot be imported.
    """
    from tapestry.teg.importers.loom.reading import import_loom

    obj = json_values(text, max_bytes)
    if _is_torch(obj):
        return from_torch(obj, name=name)
    is_loom = isinstance(obj, dict) and bool(obj.get("nodes")) and "teg" not in obj
    graph = import_loom(obj) if is_loom else from_document(obj, max_blocks=max_blocks, max_bytes=max_bytes)
    check(graph)
    return with_stored_state(graph)


def _is_torch(obj: Any) -> bool:
    """Return whether JSON values are a serialized `ExportedProgram`, or a list of nodes of `torch.fx`."""
    if not isinstance(obj, dict) or "teg" in obj:
        return False
    nodes = obj.get("nodes")
    is_list = isinstance(nodes, list) and bool(nodes) and isinstance(nodes[0], dict) and "op" in nodes[0]
    return is_list or {"graph_module", "schema_version"} <= obj.keys()


def from_stablehlo(
    source: str | bytes | Path,
    *,
    name: str | None = None,
    roles: Mapping[str, str] | None = None,
    unroll_limit: int = UNROLL_LIMIT,
) -> Graph:
    """Import a StableHLO module: its text, its bytes (bytecode too) or a path (`.mlir`, also `.gz`).

    Calls are inlined and loops unrolled while they run at most `unroll_limit` operations. Inputs are named by the
    path that JAX noted, else `arg0`, `arg1`, ...; results likewise. `roles` assigns roles to inputs by name, or to all
    below a name. Donated arguments and the state of training steps become sinks that carry their source.

    Raises:
        ArgumentError: arguments of another type.
        ImportFailure: jaxlib is not installed, the file is missing or no StableHLO, a shape or the number of trips
            of a loop is known only at run time, or operations are unsupported; one line that states which and where.
    """
    check_arguments(
        {"source": STABLEHLO, **ARGUMENTS},
        {"source": source, "name": name, "roles": roles, "unroll_limit": unroll_limit},
    )
    from tapestry.teg.importers.stablehlo.entry import import_stablehlo

    return import_stablehlo(source, name, roles, unroll_limit)


def from_jax(
    function: Callable[..., Any],
    *arguments: Any,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    name: str | None = None,
    roles: Mapping[str, str] | None = None,
    unroll_limit: int = UNROLL_LIMIT,
    **keywords: Any,
) -> Graph:
    """Import a JAX function on arguments like the given ones (arrays, `jax.ShapeDtypeStruct`, trees of them).

    Sources are named by the argument and the path in it (`params.layer.w`), sinks by the path in the result
    (`result.0`). A jitted function's settings of its arguments (static, donated) hold. See `from_stablehlo` for
    roles, carried state and loops, and `jax.jit` for the other options.

    Raises:
        ArgumentError: arguments of another type.
        ImportFailure: jax is not installed, or the function cannot be imported; one line with the reason.
    """
    options = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
    }
    given = {"function": function, "name": name, "roles": roles, "unroll_limit": unroll_limit, **options}
    check_arguments(ARGUMENTS, given)
    from tapestry.teg.importers.stablehlo.entry import import_jax

    return import_jax(function, arguments, keywords, options, name, roles, unroll_limit)
