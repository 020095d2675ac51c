"""Tasks of the pool for the API: read and check programs, check pins, expand plans. Plain values in and out."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tapestry.costmodel.strategies import PinError
from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware.layouts.drawing import svg_of
from tapestry.optimizer import StaleHistory, canonicalize, explain
from tapestry.optimizer.run.fixed_degrees import degrees_reason
from tapestry.optimizer.run.micro_batches import rounds_to_search
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.pipelines import stages_fault
from tapestry.optimizer.run.request_faults import pin_fault
from tapestry.optimizer.run.search import compile_pinned
from tapestry.rewrites import Provenance
from tapestry.service import importing
from tapestry.service.api.packing import GZIP_LEVEL, gzipped_json
from tapestry.service.explaining import block_histories_document, explanation_document, moves_of
from tapestry.service.importing import SaveResult
from tapestry.service.layout_maps import layout_map
from tapestry.service.layouts import LayoutFaults, describe, read_layout
from tapestry.service.layouts import draw as diagram_of
from tapestry.service.plan_graphs import ExplicitRefusal, explicit_portions, rewritten_portions
from tapestry.service.plan_programs import ProgramRefusal, plan_program
from tapestry.service.plan_tables import FORMS, TableRefusal, stored_table
from tapestry.service.store import ImportRequest, Store, StoreAddress, TenantStore, mesh_of
from tapestry.teg.drawing import to_dot
from tapestry.teg.faults import Fault, escape, near_names
from tapestry.teg.importers import ImportFailure
from tapestry.teg.sharding.explicit_parts import GraphPart
from tapestry.teg.sharding.explicit_size import ExplicitSize
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.possible_rounds import rounds_fault

MOST_SITES = 5  # near ones, of a pin that names none
# An artifact of this form and cost model; those of earlier ones are rendered again.
EXPLANATION = f"explanation 4, model {COST_MODEL_VERSION}"
DOT_BLOCKS = 2000


def store_at(address: StoreAddress) -> TenantStore:
    """Return the store as a tenant sees it; the database is opened once per process."""
    return _opened(address.url).of(address.tenant)


@lru_cache(maxsize=2)
def _opened(url: str) -> Store:
    return Store(url)


def save_upload(program: str, folder: str, request: ImportRequest, address: StoreAddress) -> SaveResult:
    """Store the program in a private file, with what lies in a private folder beside it."""
    return importing.save_upload(Path(program), Path(folder), request, store_at(address))


def faults_of_program(
    graph_id: str,
    pins: Mapping[str, str],
    micro_batches: int | None,
    stages: int | None,
    data_parallel: int | None,
    mesh: Mapping[str, Any],
    address: StoreAddress,
) -> tuple[Fault, ...]:
    """Find what a run asks of a program that it cannot do.

    Those are pins that name no site of it, or that no strategy on this mesh leads to, and numbers of micro-batches, of
    stages and of parts of its batch in which it cannot run.
    """
    graph = canonicalize(store_at(address).graphs.load(graph_id))
    if micro_batches is not None and (reason := rounds_fault(graph, micro_batches)):
        return (Fault("/micro_batches", reason),)
    if stages is not None:
        rounds = rounds_to_search(graph, RunOptions(micro_batches=micro_batches, stages=stages))
        if reason := stages_fault(stages, MeshShape(mesh_of(mesh).axis_sizes), rounds):
            return (Fault("/stages", reason),)
    if data_parallel is not None:
        options = RunOptions(micro_batches=micro_batches, stages=stages, data_parallel=data_parallel)
        if reason := degrees_reason(options, MeshShape(mesh_of(mesh).axis_sizes), graph):
            return (Fault("/data_parallel", reason),)
    faults = [
        Fault(f"/pins/{escape(site)}", reason, near_names(site, graph.by_site, most=MOST_SITES))
        for site in pins
        if (reason := pin_fault(graph, site))
    ]
    if faults:
        return tuple(faults)
    try:
        compile_pinned(graph, mesh_of(mesh), pins)
    except PinError as error:
        faults.append(Fault(f"/pins/{escape(error.site)}", str(error)))
    return tuple(faults)


@dataclass(frozen=True)
class Refused:
    """A refusal to write an explicit graph, as `service.plan_graphs` reports it."""

    detail: str
    option: str
    size: ExplicitSize | None
    limit: ExplicitSize | None


def stream_explicit(
    key: int, run_id: str, part: GraphPart, limit: ExplicitSize, address: StoreAddress, is_gzip: bool
) -> Iterator[Refused | bytes]:
    """Yield the explicit graph of a plan in portions, or the reason why it is not written."""
    store = store_at(address)
    mesh = mesh_of(store.runs.request(run_id).mesh)
    try:
        portions = explicit_portions(store.plans.load(key), mesh, part, limit)
    except ExplicitRefusal as error:
        yield Refused(str(error), error.option, error.size, error.limit)
        return
    yield b""  # the answer may begin, and from then on its work ends with its client
    yield from _encoded(portions, is_gzip)


def stream_rewritten(key: int, address: StoreAddress, is_gzip: bool) -> Iterator[bytes]:
    """Yield the document of the graph that a plan shards, in portions."""
    yield from _encoded(rewritten_portions(store_at(address).plans.load(key)), is_gzip)


def _encoded(portions: Iterable[str], is_gzip: bool) -> Iterable[bytes]:
    texts = (portion.encode("ascii") for portion in portions)
    return gzipped(texts) if is_gzip else texts


def gzipped(portions: Iterable[bytes]) -> Iterator[bytes]:
    """Compress portions as one gzip file, and yield it in portions."""
    packer = zlib.compressobj(GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
    for portion in portions:
        if packed := packer.compress(portion):
            yield packed
    yield packer.flush()


def render_explanation(plan_id: str, address: StoreAddress) -> str:
    """Cost a plan's history step by step and store that; return the reason if it cannot be replayed."""
    store = store_at(address)
    plan = store.plans.get(plan_id)
    request = store.runs.request(plan.run_id)
    graph, moves = canonicalize(store.graphs.load(request.graph_id)), moves_of(plan.moves)
    try:
        reported = explain(
            graph,
            moves,
            mesh_of(request.mesh),
            compute_dtype=request.options.compute_dtype,
            ablation=True,
            objectives=request.options.objectives,
        )
    except StaleHistory as error:
        return " ".join(str(error).split())
    document = {
        "plan": plan.public_id,
        **explanation_document(reported, request.options.objectives, plan.cost, plan.cost_model),
        **block_histories_document(Provenance(graph, moves)),
    }
    store.plans.save_artifact(plan.key, EXPLANATION, gzipped_json(document), datetime.now(UTC))
    return ""


def draw(key: int, address: StoreAddress) -> str:
    """Convert a plan's rewritten graph to the DOT language."""
    return to_dot(store_at(address).plans.load(key).graph, DOT_BLOCKS)


class WrittenTable(NamedTuple):
    """A table of shardings, or why there is none for the plan (`refusal`), or none in the given file (`fault`)."""

    text: str = ""
    refusal: str = ""
    fault: str = ""


def write_table(plan_id: str, form: str, address: StoreAddress, path: str | None = None) -> WrittenTable:
    """Write a plan's table of shardings, or into the program of a private file, if that is its own.

    The program is input from outside, which may break its reader in any way.
    """
    store = store_at(address)
    try:
        table = stored_table(store, store.plans.get(plan_id))
    except TableRefusal as error:
        return WrittenTable(refusal=str(error))
    written = next(known for known in FORMS if known.name == form)
    if path is None:
        return WrittenTable(written.write(table, ""))
    try:
        return WrittenTable(written.write(table, Path(path).read_bytes()))
    except ImportFailure as error:
        return WrittenTable(fault=" ".join(str(error).split()))
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error)[:200].split())}"
        return WrittenTable(fault=f"its reader broke on it ({reason})")


def write_program(key: int, run_id: str, library: str, address: StoreAddress) -> tuple[str, str]:
    """Write a plan as a module of a library; return it, or the reason why there is none."""
    store = store_at(address)
    try:
        mesh = mesh_of(store.runs.request(run_id).mesh)
        return plan_program(store.plans.load(key), mesh, library), ""
    except ProgramRefusal as error:
        return "", str(error)


def describe_layout(
    text: str, dtype: str | None, at: Sequence[int] | None, offset: int | None
) -> tuple[dict[str, Any], tuple[Fault, ...]]:
    """Return the description of a layout, or the faults of its text."""
    try:
        return describe(read_layout(text, dtype), at, offset), ()
    except LayoutFaults as error:
        return {}, tuple(Fault(*fault) for fault in error.faults)


def map_layout(text: str, dtype: str | None) -> tuple[bytes, tuple[Fault, ...]]:
    """Map the elements of a layout to slots and back, as gzipped JSON, or return the faults for which there is none."""
    try:
        return gzipped_json(layout_map(read_layout(text, dtype))), ()
    except LayoutFaults as error:
        return b"", tuple(Fault(*fault) for fault in error.faults)


def draw_layout(text: str, dtype: str | None) -> tuple[str, tuple[Fault, ...]]:
    """Draw a layout as SVG, or return the faults for which there is no picture of it."""
    try:
        return svg_of(diagram_of(read_layout(text, dtype))), ()
    except LayoutFaults as error:
        return "", tuple(Fault(*fault) for fault in error.faults)
