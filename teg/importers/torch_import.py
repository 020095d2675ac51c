"""Import of PyTorch programs in four stages: read any of their forms, translate, factor, lower."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teg.graph import ROLES, Graph
from teg.importers.absorbing import absorb_transpositions
from teg.importers.factoring import Factoring
from teg.importers.failure import ImportFailure
from teg.importers.lowering.lower import lower
from teg.importers.torch.archive import read_archive
from teg.importers.torch.dumps import read_dump
from teg.importers.torch.listing import Listing
from teg.importers.torch.live import read_exported, read_module
from teg.importers.torch.serialized import looks_serialized, parse_json, read_serialized
from teg.importers.torch.translate import translate, unsupported

LARGEST_DUMP_BYTES = 2 * 1024**3


def import_torch(
    source: Any,
    example: tuple[Any, ...],
    name: str | None,
    roles: Mapping[str, str] | None = None,
    carries: Mapping[str, str] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Graph:
    """The graph of a PyTorch program; see `teg.importers.from_torch`."""
    wrong = sorted(set((roles or {}).values()) - set(ROLES))
    if wrong:
        raise ImportFailure(f"unknown role {wrong[0]!r}; use {', '.join(ROLES)}")
    listing = read_listing(source, example, name, roles, carries, dims)
    program = translate(listing)
    program = absorb_transpositions(program)
    return lower(program, Factoring(program))


def read_listing(
    source: Any,
    example: tuple[Any, ...] = (),
    name: str | None = None,
    roles: Mapping[str, str] | None = None,
    carries: Mapping[str, str] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Listing:
    """Any form of a PyTorch program as one plain list of calls."""
    if isinstance(source, (str, Path)):
        return _read_file(Path(source), name, dims)
    if isinstance(source, Mapping):
        return _read_document(source, name or "program", dims)
    if hasattr(source, "graph_signature") and hasattr(source, "run_decompositions"):
        return _read_live(source, name or "program", dims)
    if hasattr(source, "graph") and hasattr(source, "code") and not example:
        return read_module(source, name or "program", roles or {}, carries or {})
    if callable(source):
        return _read_live(_exported(source, example), name or type(source).__name__, dims)
    raise ImportFailure(
        "expected an ExportedProgram, a GraphModule, a module with example arguments, or a file "
        f"(.pt2, .json, .json.gz), not {type(source).__name__}"
    )


def _read_live(exported: Any, name: str, dims: Mapping[str, int] | None) -> Listing:
    """Operators that have no translation are decomposed by torch first."""
    listing = read_exported(exported, name, dims)
    if unsupported(listing):
        listing = read_exported(exported.run_decompositions(), name, dims)
    return listing


def _exported(source: Any, example: tuple[Any, ...]) -> Any:
    import torch

    class Function(torch.nn.Module):  # type: ignore[misc]
        """A function of tensors as the module that export wants."""

        def forward(self, *arguments: Any) -> Any:
            return source(*arguments)

    module = source if isinstance(source, torch.nn.Module) else Function()
    try:
        return torch.export.export(module, example)
    except Exception as error:  # torch raises whatever tracing stumbles over
        reason = str(error).strip().partition("\n")[0]
        raise ImportFailure(f"torch.export cannot export {type(source).__name__}: {reason}") from error


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
        f"{name} is neither a serialised ExportedProgram ('graph_module', 'schema_version') "
        "nor a node list of torch.fx ('inputs', 'nodes')"
    )
