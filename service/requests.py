"""Validation of run requests: raw values in, a checked request out, or every fault at once with its place.

Texts that come from outside are names in catalogs here, never paths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.resources import Resource
from tapestry.hardware import (
    CatalogError,
    Mesh,
    device_names,
    load_mesh,
    mesh_from_dict,
    mesh_names,
    node_meshes,
)
from tapestry.optimizer.run.options import OPTIONS, RunOptions
from tapestry.optimizer.run.request_faults import option_faults
from tapestry.service.settings import Limits
from tapestry.service.store import RunRequest, mesh_to_document
from tapestry.teg.faults import Fault, escape, joined, no_such
from tapestry.teg.printable import is_printable

LONGEST_TEXT = 1000
DEEPEST = 8
WIDEST = 1000
# Fields of a mesh that follow from others: one that the catalog shows may be changed and posted back.
DERIVED_FIELDS = ("device_count",)
_STEP = re.compile(r"([A-Za-z_][\w.]*)((?:\[[0-9]+\])*)")
_ONE_OF = re.compile(r"expected one of (.+), not ")


class InvalidRequest(ValueError):
    """Error raised for a request that cannot be carried out as submitted; `faults` are all the reasons."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(joined([f"{fault.pointer}: {fault.detail}" for fault in faults]))
        self.faults = tuple(faults)


class _Faults:
    """A collector of faults, so that a user gets all of them at once."""

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, pointer: str, detail: str, allowed: Sequence[str] = ()) -> None:
        self.found.append(Fault(pointer, " ".join(detail.split()), tuple(allowed)))

    def one_of(self, pointer: str, value: str, known: Sequence[str], what: str) -> bool:
        """Return whether a name is known; if not, add a fault with similar names."""
        if value in known:
            return True
        self.add(pointer, no_such(what, value, known), known)
        return False


def check_request(
    graph_id: str,
    mesh: str | Mapping[str, Any],
    options: RunOptions,
    limits: Limits,
    resources: Sequence[str] = (),
) -> RunRequest:
    """Check everything about a request that needs no database and, of its graph, the named `resources` only.

    Raises:
        InvalidRequest: with every fault that was found.
    """
    faults = _Faults()
    known_mesh = _mesh(mesh, faults)
    known = KnownObjectives(tuple(map(Resource, resources)))
    faults.found += option_faults(options, known_mesh, known, limits=greatest(limits))
    if faults.found or known_mesh is None:
        raise InvalidRequest(faults.found)
    objectives = tuple(
        known.named(text).name for text in options.objectives
    )  # expressions in their usual notation
    document = mesh_to_document(options.on(known_mesh))
    return RunRequest(graph_id, document, replace(options, objectives=objectives))


def greatest(limits: Limits) -> dict[str, float]:
    """Return the greatest numbers that a service allows, by option: its limits called `run_` and the option's name."""
    return {option.name: most for option in OPTIONS if (most := getattr(limits, f"run_{option.name}", None))}


def is_named(name: str, options: RunOptions, document: Mapping[str, Any]) -> bool:
    """Return whether a request that names the mesh has the same mesh, in its document, as a run with these options.

    It does not where the run had a mesh of its own, or where the catalog has changed since.
    """
    if any(part not in mesh_names() for part in node_meshes(name)):
        return False
    try:
        return mesh_to_document(options.on(load_mesh(name))) == document
    except CatalogError:
        return False


def _mesh(given: str | Mapping[str, Any], faults: _Faults) -> Mesh | None:
    if isinstance(given, str):
        if not all(faults.one_of("/mesh", name, mesh_names(), "mesh") for name in node_meshes(given)):
            return None
        try:
            return load_mesh(given)
        except CatalogError as error:
            faults.add("/mesh", str(error))
            return None
    before = len(faults.found)
    _check_plain(given, "/mesh", faults)
    if len(faults.found) > before:
        return None
    given = _from_catalog(given, "/mesh", faults)
    if any(fault.pointer.startswith("/mesh/nodes") for fault in faults.found[before:]):
        return None
    try:
        mesh = mesh_from_dict(given, "mesh")
        return mesh if len(faults.found) == before else None
    except CatalogError as error:
        for message in error.faults:
            allowed = _ONE_OF.search(message)
            faults.add(_pointer(message), message, allowed.group(1).split(", ") if allowed else ())
        return None


def _from_catalog(given: Mapping[str, Any], pointer: str, faults: _Faults) -> Mapping[str, Any]:
    """Check that the device and the nodes of a mesh that are names are of the catalog, not paths of files here.

    Returns: the mesh, with some device in the place of an unknown one, with which the faults of the rest are found.
    """
    given = {name: value for name, value in given.items() if name not in DERIVED_FIELDS}
    device, nodes = given.get("device"), given.get("nodes")
    known = device_names(with_aliases=True)
    if isinstance(device, str) and not faults.one_of(f"{pointer}/device", device, known, "device"):
        given["device"] = device_names()[0]
    for k, node in enumerate(nodes if isinstance(nodes, list) else ()):
        if isinstance(node, Mapping):
            _from_catalog(node, f"{pointer}/nodes/{k}", faults)
        elif isinstance(node, str):
            all(
                faults.one_of(f"{pointer}/nodes/{k}", name, mesh_names(), "mesh")
                for name in node_meshes(node)
            )
    return given


def _pointer(message: str) -> str:
    """Find the place in a mesh's document of a catalog error, reported as `mesh: axes[0]: size: ...`."""
    pointer = ""
    for part in message.split(": "):
        found = _STEP.fullmatch(part)
        if found is None:
            break
        pointer += f"/{found.group(1)}" + "".join(f"/{k}" for k in re.findall("[0-9]+", found.group(2)))
    return pointer


def _check_plain(value: Any, pointer: str, faults: _Faults, depth: int = 0) -> None:
    """Check that a mesh's document holds nothing that no mesh needs: unprintable texts, figures beyond 64 bits."""
    if isinstance(value, str) and not (is_printable(value) and len(value) <= LONGEST_TEXT):
        faults.add(pointer, f"expected at most {LONGEST_TEXT} printable characters")
    if isinstance(value, (int, float)) and not abs(value) < 2**63:  # nan is not either
        faults.add(pointer, "expected a number below 2**63")
    if not isinstance(value, (Mapping, list)):
        return
    if depth > DEEPEST or len(value) > WIDEST:
        faults.add(pointer, f"expected at most {WIDEST} members, and {DEEPEST} levels of them")
        return
    for key, member in value.items() if isinstance(value, Mapping) else enumerate(value):
        if isinstance(key, str):
            _check_plain(key, pointer, faults)
        _check_plain(member, f"{pointer}/{escape(str(key))}", faults, depth + 1)
