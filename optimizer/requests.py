"""Requests of a search: program, mesh and options are read together, so that all their faults are reported at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike

from tapestry.costmodel.known_objectives import KnownObjectives, known_objectives
from tapestry.hardware import CatalogError, Mesh, load_mesh
from tapestry.optimizer.run.canonicalization import canonicalize
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.request_faults import option_faults
from tapestry.rewrites.storage_precision import StoragePrecisionError, stored_in
from tapestry.teg.faults import ArgumentError, Fault, expected, refuse
from tapestry.teg.graph import Graph
from tapestry.teg.importers.files import GraphFileError, read_program
from tapestry.teg.importers.shardings.files import read_shardings
from tapestry.teg.importers.shardings.pins import pins_of
from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.program import Program
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.validate import InvalidGraphError, check

ProgramLike = Graph | Program | str | PathLike[str]
MeshLike = Mesh | str | PathLike[str]

PROGRAM = "a program: a graph, a program of the builder or a file's path"
MESH = "a mesh, a name such as 'dgx-h100' or the path of a TOML file"
ELSEWHERE = "import others by from_onnx, from_stablehlo, from_jax or from_torch"


@dataclass(frozen=True)
class ReadRequest:
    """A request of a search, as far as it could be read, with all its faults.

    `given` is the program before it was stored in another precision.
    """

    graph: Graph | None
    mesh: Mesh | None
    options: RunOptions
    faults: tuple[Fault, ...]
    given: Graph | None = None


def read_request(
    program: ProgramLike,
    mesh: MeshLike,
    options: RunOptions,
    dims: Mapping[str, int] | None = None,
    external_data: str | PathLike[str] | None = None,
    pins_from: str | PathLike[str] | None = None,
) -> ReadRequest:
    """Read program and mesh, and check the options against both; pins of a builder's program join those of `options`.

    So do those that the shardings in the file `pins_from` are for this program on this mesh. With the option `dtype`
    the program is stored in that precision (`rewrites.storage_precision`). Program and mesh are as the options ask.
    Where the program cannot be read, objectives are checked against the catalog, and pins in their form alone.

    Raises:
        InvalidGraphError: pins are asked for, and the graph breaks a rule of the language.
    """
    faults: list[Fault] = []
    graph = read_mesh = None
    try:
        graph, pins = program_of(program, dims, external_data)
        if pins and isinstance(options.pins, Mapping):
            options = options.changed(pins=pins | dict(options.pins))
    except (ArgumentError, GraphFileError, ProgramError, InvalidGraphError) as error:
        faults += _faults_at("/program", error)
    given = graph
    form = {fault.pointer for fault in options.faults()}
    if options.dtype is not None and "/dtype" not in form and graph is not None:
        try:
            check(graph)
            graph = stored_in(graph, options.dtype)
        except (InvalidGraphError, StoragePrecisionError) as error:
            faults += _faults_at("/dtype", error)
    try:
        read_mesh = mesh_of(mesh)
        read_mesh = read_mesh if form & {"/launch", "/robust"} else options.on(read_mesh)
    except (ArgumentError, CatalogError) as error:
        faults += _faults_at("/mesh", error)
    if (
        pins_from is not None
        and graph is not None
        and read_mesh is not None
        and isinstance(options.pins, Mapping)
    ):
        try:
            options = options.changed(pins=_pins_in(pins_from, graph, read_mesh) | dict(options.pins))
        except ValueError as error:
            faults += _faults_at("/pins_from", error)
    known, canonical = KnownObjectives(), None
    if graph is not None:
        try:
            known = known_objectives(graph)
            canonical = _canonical(graph) if options.pins else None
        except ValueError as error:
            faults += _faults_at("/program", error)
    faults += option_faults(options, read_mesh, known, canonical)
    return ReadRequest(graph, read_mesh, options, tuple(faults), given)


def _pins_in(path: str | PathLike[str], graph: Graph, mesh: Mesh) -> dict[str, str]:
    """Return the pins that a file states, but for what the search prunes because nothing observes it.

    Raises:
        ShardingError: the file cannot be read, or its shardings do not fit program and mesh.
    """
    pins = pins_of(read_shardings(path), graph, MeshShape(mesh.axis_sizes))
    kept = _canonical(graph).by_site
    return {site: pin for site, pin in pins.items() if site in kept}


def _canonical(graph: Graph) -> Graph:
    check(graph)
    return canonicalize(graph)


def _faults_at(pointer: str, error: Exception) -> Iterator[Fault]:
    """Yield the faults that an error lists, or itself as one; those of arguments name their place themselves."""
    for text in getattr(error, "faults", (str(error),)):
        yield Fault("" if isinstance(error, ArgumentError) else pointer, " ".join(text.split()))


def program_of(
    given: ProgramLike, dims: Mapping[str, int] | None, external_data: str | PathLike[str] | None
) -> tuple[Graph, dict[str, str]]:
    """Return the graph of a program, and the pins that it brings along.

    Raises:
        ArgumentError: another type, or arguments for reading a file where there is none.
        GraphFileError: the file holds no readable program.
        ProgramError: the builder's program has no output, or pins what has no block.
        InvalidGraphError: the builder's program breaks a rule of the language.
    """
    if isinstance(given, str | PathLike):
        return read_program(given, dims=dims, external_data=external_data), {}
    if not isinstance(given, (Program, Graph)):
        refuse("program", PROGRAM, given, ELSEWHERE)
    if dims or external_data is not None:
        raise ArgumentError("dims= and external_data= are for reading a file; the program is a value already")
    return (given.graph, given.pins) if isinstance(given, Program) else (given, {})


def mesh_of(given: MeshLike) -> Mesh:
    """Return a mesh, or the one that a name or a file means.

    Raises:
        ArgumentError: another type.
        CatalogError: an unknown name, or a file that is no mesh.
    """
    if isinstance(given, Mesh):
        return given
    if isinstance(given, str | PathLike):
        return load_mesh(given)
    raise ArgumentError(expected("mesh", MESH, given))
