"""Import of PyTorch programs in four stages: read any of their forms, translate, factor, lower."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tapestry.teg.faults import ArgumentError, value_text
from tapestry.teg.graph import Graph
from tapestry.teg.importers.absorbing import absorb_transpositions
from tapestry.teg.importers.factoring import Factoring
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.lowering.lower import lower
from tapestry.teg.importers.torch.annotations import apply_annotations
from tapestry.teg.importers.torch.archive import read_archive
from tapestry.teg.importers.torch.dumps import read_dump
from tapestry.teg.importers.torch.listing import Listing
from tapestry.teg.importers.torch.live import is_hollow, read_exported, read_module
from tapestry.teg.importers.torch.serialized import looks_serialized, parse_json, read_serialized
from tapestry.teg.importers.torch.translate import translate, unsupported

LARGEST_DUMP_BYTES = 2 * 1024**3


def import_torch(
    source: Any,
    example: tuple[Any, ...],
    name: str | None,
    roles: Mapping[str, str] | None = None,
    carries: Mapping[str, str] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Graph:
    """Import a PyTorch program as a graph; see `teg.importers.from_torch`."""
    listing = read_listing(source, example, name, dims)
    return import_listing(apply_annotations(listing, roles or {}, carries or {}))


def import_listing(listing: Listing) -> Graph:
    """Translate, factor and lower a list of calls."""
    program = absorb_transpositions(translate(listing))
    return lower(program, Factoring(program))


def read_listing(
    source: Any,
    example: tuple[Any, ...] = (),
    name: str | None = None,
    dims: Mapping[str, int] | None = None,
) -> Listing:
    """Read any form of a PyTorch program as one plain list of calls."""
    if isinstance(source, (str, Path)):
        return _read_file(Path(source), name, dims)
    if isinstance(source, Mapping):
        return _read_document(source, name or "program", dims)
    if hasattr(source, "graph_signature") and hasattr(source, "run_decompositions"):
        return _read_live(source, name or "program", dims)
    if hasattr(source, "graph") and hasattr(source, "code") and not example:
        return read_module(source, name or "program")
    if callable(source):
        exported, label = _exported(source, example), name or type(source).__name__
        if any(hasattr(c, "dtype") and is_hollow(c) for c in exported.constants.values()):
            return _traced(source, example, exported, label)
        return _read_live(exported, label, dims)
    raise ArgumentError(
        "source: expected an ExportedProgram, a GraphModule, a module with example arguments, or a file "
        f"(.pt2, .json, .json.gz), not {value_text(source)}"
    )


def _read_live(exported: Any, name: str, dims: Mapping[str, int] | None) -> Listing:
    """Read a live program; if operators have no translation, torch decomposes it first."""
    listing = read_exported(exported, name, dims)
    if unsupported(listing):
        listing = read_exported(exported.run_decompositions(), name, dims)
    return listing


def _exported(source: Any, example: tuple[Any, ...]) -> Any:
    import torch

    class FunctionModule(torch.nn.Module):  # type: ignore[misc]
        """A function of tensors as the module that export expects."""

        def forward(self, *arguments: Any) -> Any:
            return source(*arguments)

    module = source if isinstance(source, torch.nn.Module) else FunctionModule()
    try:
        return torch.export.export(module, example)
    except Exception as error:  # torch raises whatever tracing stumbles over
        reason = str(error).strip().partition("\n")[0]
        raise ImportFailure(f"torch.export cannot export {type(source).__name__}: {reason}") from error


def _traced(source: Any, example: tuple[Any, ...], exported: Any, name: str) -> Listing:
    """Trace a function with transformations of `torch.func` inside; inputs are named as export names them.

    Raises:
        ImportFailure: it is a module with state of its own, which a trace does not name, or cannot be traced.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    if isinstance(source, torch.nn.Module) and (exported.state_dict or any(source.buffers())):
        raise ImportFailure(
            f"{name} takes gradients by torch.func inside, which torch.export does not see through; write the "
            "step as a function that takes its parameters as arguments (torch.func.functional_call)"
        )
    try:
        module = make_fx(torch.func.functionalize(source))(*example)
    except Exception as error:  # torch raises whatever tracing stumbles over
        reason = str(error).strip().partition("\n")[0]
        raise ImportFailure(f"{name} cannot be traced: {reason}") from error
    holders = [n.name for n in module.graph.nodes if n.op == "placeholder"]
    users = [str(u) for u in exported.graph_signature.user_inputs]
    return read_module(
        module, name, dict(zip(holders, users, strict=True)) if len(users) == len(holders) else {}
    )


def _read_file(path: Path, name: str | None, dims: Mapping[str, int] | None) -> Listing:
    label = name or path.name.removesuffix(".gz").removesuffix(".json").removesuffix(".pt2")
    if not path.exists():
        raise ImportFailure(f"there is no file {str(path)!r}")
    if path.suffix.lower() == ".pt2":
        return read_archive(path, label, dims)
    try:
        content = path.read_bytes()
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as packed:
                content = packed.read(LARGEST_DUMP_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ImportFailure(
            f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}"
        ) from None
    if len(content) > LARGEST_DUMP_BYTES:
        raise ImportFailure(f"file {str(path)!r} unpacks to more than {LARGEST_DUMP_BYTES} bytes")
    return _read_document(parse_json(content, f"file {str(path)!r}"), label, dims)


def _read_document(document: Any, name: str, dims: Mapping[str, int] | None) -> Listing:
    if looks_serialized(document):
        return read_serialized(document, name, dims=dims)
    if isinstance(document, Mapping) and "nodes" in document:
        return read_dump(document, name)
    raise ImportFailure(
        f"{name} is neither a serialized ExportedProgram ('graph_module', 'schema_version') "
        "nor a node list of torch.fx ('inputs', 'nodes')"
    )
