"""Faults in the meaning of a run's options: names, bounds, rules, pins and precision, against mesh and program.

The HTTP API, the command line and `optimize()` find them here, so that all three report the same faults, all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite

from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.archive.constraints import parse_constraint
from tapestry.optimizer.archive.goal import is_sum
from tapestry.optimizer.run.fixed_degrees import degrees_reason
from tapestry.optimizer.run.micro_batches import rounds_to_search
from tapestry.optimizer.run.options import LATEST, NO_SNAPSHOT, RunOptions, names_snapshot
from tapestry.optimizer.run.pipelines import stages_fault
from tapestry.optimizer.run.worth import worth_fault
from tapestry.optimizer.structure.rules import rule_fault
from tapestry.rewrites import catalog
from tapestry.teg.faults import Fault, escape, near_names, no_such
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.possible_rounds import rounds_fault
from tapestry.teg.sharding.text import parse_spec


def option_faults(
    options: RunOptions,
    mesh: Mesh | None,
    known: KnownObjectives,
    graph: Graph | None = None,
    limits: Mapping[str, float] | None = None,
) -> tuple[Fault, ...]:
    """Find all faults of a run's options: those of form, and of the other options those of meaning.

    `known` are the program's objectives. Without `mesh` or `graph` (the program, canonicalized) what needs them is not
    checked. `limits` are the greatest numbers that a service allows, by option.
    """
    faults = tuple(
        Fault(f.pointer, f.detail, tuple(known.by_name)) if f.pointer == "/objectives" else f
        for f in options.faults(limits)
    )
    broken = {fault.pointer for fault in faults}
    meaning: dict[str, Callable[[], Iterator[Fault]]] = {
        "/objectives": lambda: _objectives(options.objectives, mesh, known),
        "/constraints": lambda: _constraints(options.constraints, mesh, known),
        "/gap": lambda: _gap(options, mesh, known),
        "/worth": lambda: _worth(options, known),
        "/rules": lambda: _rules(options.rules or ()),
        "/pins": lambda: _pins(options.pins, graph),
        "/prior": lambda: _prior(options.prior),
        "/micro_batches": lambda: _micro_batches(options.micro_batches, graph),
        "/stages": lambda: _stages(options, mesh, graph),
        "/data_parallel": lambda: _degrees("/data_parallel", options.data_parallel, options, mesh, graph),
        "/tensor_parallel": lambda: _degrees(
            "/tensor_parallel", options.tensor_parallel, options, mesh, graph
        ),
        "/compute_dtype": lambda: _compute_dtype(options.compute_dtype, mesh),
    }
    return (*faults, *(fault for place, find in meaning.items() if place not in broken for fault in find()))


def _objectives(names: Sequence[str], mesh: Mesh | None, known: KnownObjectives) -> Iterator[Fault]:
    found: set[str] = set()
    for k, text in enumerate(names):
        pointer = f"/objectives/{k}"
        try:
            name = known.named(text).name
            if name in found:
                yield Fault(pointer, f"{name} is there twice")
            elif mesh is not None:
                known.require([name], mesh.device)
            found.add(name)
        except (ValueError, OverflowError) as error:
            yield Fault(pointer, _line(error), tuple(known.by_name) if text.isidentifier() else ())


def _constraints(texts: Sequence[str], mesh: Mesh | None, known: KnownObjectives) -> Iterator[Fault]:
    for k, text in enumerate(texts):
        try:
            bound = parse_constraint(text, known)
            if not isfinite(bound.bound):
                yield Fault(f"/constraints/{k}", f"{text!r} bounds nothing; leave it out")
            elif mesh is not None:
                known.require([bound.objective], mesh.device)
        except (ValueError, OverflowError) as error:
            yield Fault(f"/constraints/{k}", _line(error))


def _gap(options: RunOptions, mesh: Mesh | None, known: KnownObjectives) -> Iterator[Fault]:
    """Yield the fault of a gap that no bound can meet: that of an objective which is not a sum of costs."""
    if options.gap is None or mesh is None:
        return
    try:
        (first,) = known.require(options.objectives[:1], mesh.device)
    except (ValueError, OverflowError, TypeError):
        return  # that of an objective
    if not is_sum(known.term_on(first, mesh)):
        yield Fault(
            "/gap",
            f"nothing is proven about {first.name}, which is not a sum of costs; begin the objectives with another one",
        )


def _worth(options: RunOptions, known: KnownObjectives) -> Iterator[Fault]:
    for name, text in options.worth.items():
        if reason := worth_fault(name, text, options.objectives, known):
            yield Fault(f"/worth/{escape(name)}", reason)


def _rules(names: Sequence[str]) -> Iterator[Fault]:
    for k, name in enumerate(names):
        if reason := rule_fault(name):
            yield Fault(f"/rules/{k}", reason, tuple(catalog()))


def _pins(pins: Mapping[str, str], graph: Graph | None) -> Iterator[Fault]:
    for site, spec in pins.items():
        pointer = f"/pins/{escape(site)}"
        if graph is not None and (reason := pin_fault(graph, site)):
            yield Fault(pointer, reason, near_names(site, graph.by_site))
        try:
            parse_spec(spec)
        except ValueError as error:
            yield Fault(pointer, _line(error))


def _prior(text: str | None) -> Iterator[Fault]:
    if text is not None and text not in (LATEST, NO_SNAPSHOT) and not names_snapshot(text):
        yield Fault(
            "/prior",
            f"expected {LATEST}, {NO_SNAPSHOT} or the number of a snapshot, not {text!r}",
            (LATEST, NO_SNAPSHOT),
        )


def pin_fault(graph: Graph, site: str) -> str:
    """Return why a site cannot be pinned: it is not in the graph, or it has no placement; empty if it can."""
    if site not in graph.by_site:
        return no_such("block", site, graph.by_site, graph.by_site)
    return "a view has no placement; pin the block it views" if graph.by_site[site].is_view else ""


def _micro_batches(count: int | None, graph: Graph | None) -> Iterator[Fault]:
    if count is not None and graph is not None and (reason := rounds_fault(graph, count)):
        yield Fault("/micro_batches", reason)


def _stages(options: RunOptions, mesh: Mesh | None, graph: Graph | None) -> Iterator[Fault]:
    if options.stages is None or mesh is None:
        return
    if options.stages > 1 and options.pins:
        yield Fault("/stages", "blocks cannot be pinned where plans have stages")
        return
    is_known = graph is not None and not rounds_fault(graph, options.micro_batches or 1)
    rounds = rounds_to_search(graph, options) if graph is not None and is_known else None
    if reason := stages_fault(options.stages, MeshShape(mesh.axis_sizes), rounds):
        yield Fault("/stages", reason)


def _degrees(
    pointer: str, count: int | None, options: RunOptions, mesh: Mesh | None, graph: Graph | None
) -> Iterator[Fault]:
    """Yield why no plan has a number of parts that is fixed; those of both only once."""
    if count is None or mesh is None or (pointer == "/tensor_parallel" and options.data_parallel is not None):
        return
    if options.pins:
        yield Fault(pointer, "blocks cannot be pinned where the parts of all blocks are fixed")
    elif reason := degrees_reason(options, MeshShape(mesh.axis_sizes), graph):
        yield Fault(pointer, reason)


def _compute_dtype(name: str | None, mesh: Mesh | None) -> Iterator[Fault]:
    if name is None or mesh is None:
        return
    device = mesh.device
    try:
        device.contraction_dtype(name)
    except ValueError as error:
        allowed = sorted({*device.peak_flops_per_s, *device.compute_dtype_default})
        yield Fault("/compute_dtype", _line(error), tuple(allowed))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
