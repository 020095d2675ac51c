"""Validation of run requests: raw values in, a checked request out, or every fault at once with its place.

Texts that come from outside are names in catalogs here, never paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import isfinite
from typing import Any, TypeVar

from tapestry.costmodel.expression_parser import ExpressionError
from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.resources import Resource
from tapestry.hardware import CatalogError, Mesh, device_names, load_mesh, mesh_from_dict, mesh_names
from tapestry.optimizer import parse_constraint
from tapestry.optimizer.run.options import OPTIONS, RunOptions
from tapestry.rewrites import catalog
from tapestry.rewrites.rules import plug_ins
from tapestry.service.settings import Limits
from tapestry.service.store import RunRequest, mesh_to_document
from tapestry.teg.sharding.text import parse_spec

T = TypeVar("T")

NEAR = 3
LONGEST_TEXT = 1000
DEEPEST = 6
WIDEST = 1000
# Fields of a machine as the catalog shows it that follow from others.
DERIVED_FIELDS = ("device_count",)
_STEP = re.compile(r"([A-Za-z_]\w*)((?:\[[0-9]+\])*)")
_ONE_OF = re.compile(r"expected one of (.+), got ")


@dataclass(frozen=True)
class Fault:
    """One fault: its place (a JSON pointer), a description, and the allowed values."""

    pointer: str
    detail: str
    allowed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"pointer": self.pointer, "detail": self.detail}
        if self.allowed:
            document["allowed"] = list(self.allowed)
        return document


class InvalidRequest(ValueError):
    """Error raised for a request that cannot be carried out as submitted; `faults` are all the reasons."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(f"{fault.pointer}: {fault.detail}" for fault in faults))
        self.faults = tuple(faults)


class _Faults:
    """A collector of faults, so that a user gets all of them at once."""

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, pointer: str, detail: str, allowed: Sequence[str] = ()) -> None:
        self.found.append(Fault(pointer, " ".join(detail.split()), tuple(allowed)))

    def one_of(self, pointer: str, value: str, known: Sequence[str], what: str, reported: str = "") -> bool:
        """Return whether a name is known; if not, add a fault with the hint `reported`, or with similar names."""
        if value in known:
            return True
        near = get_close_matches(value, known, n=NEAR)
        hint = f"; {reported}" if reported else f"; did you mean {' or '.join(near)}?" if near else ""
        self.add(pointer, f"there is no {what} {_shown(value)}{hint}", known)
        return False

    def attempt(self, pointer: str, action: Callable[..., T], *arguments: Any) -> T | None:
        """Return the action's value; if it raises a ValueError or OverflowError, add a fault and return None."""
        try:
            return action(*arguments)
        except (ValueError, OverflowError) as error:
            self.add(pointer, str(error))
            return None


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
    for pointer, reason, allowed in options.faults(_greatest(limits)):
        names = tuple(known.by_name) if pointer == "/objectives" else ()
        faults.add(pointer, reason, allowed or names)
    objectives = _objectives(options.objectives, known_mesh, known, faults)
    _constraints(options.constraints, known_mesh, known, faults)
    if options.rules is not None:
        _rules(options.rules, faults)
    for site, spec in options.pins.items():
        faults.attempt(f"/pins/{escape(site)}", parse_spec, spec)
    if options.compute_dtype is not None and known_mesh is not None:
        _compute_dtype(options.compute_dtype, known_mesh, faults)
    if faults.found or known_mesh is None:
        raise InvalidRequest(faults.found)
    return RunRequest(graph_id, mesh_to_document(known_mesh), replace(options, objectives=objectives))


def _greatest(limits: Limits) -> dict[str, float]:
    """Return the greatest numbers that a service allows, by option: its limits called `run_` and the option's name."""
    return {option.name: most for option in OPTIONS if (most := getattr(limits, f"run_{option.name}", None))}


def escape(name: str) -> str:
    """Escape a name as a part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def _shown(value: str) -> str:
    return repr(value if len(value) <= 80 else value[:77] + "...")


def _mesh(given: str | Mapping[str, Any], faults: _Faults) -> Mesh | None:
    if isinstance(given, str):
        return load_mesh(given) if faults.one_of("/mesh", given, mesh_names(), "mesh") else None
    before = len(faults.found)
    _check_plain(given, "/mesh", faults)
    if len(faults.found) > before:
        return None
    given = {name: value for name, value in given.items() if name not in DERIVED_FIELDS}
    device = given.get("device")
    if isinstance(device, str) and not faults.one_of(
        "/mesh/device", device, device_names(with_aliases=True), "device"
    ):
        return None
    try:
        return mesh_from_dict(given, "mesh")
    except CatalogError as error:
        for message in error.faults:
            allowed = _ONE_OF.search(message)
            faults.add(_pointer(message), message, allowed.group(1).split(", ") if allowed else ())
        return None


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
    if isinstance(value, str) and not (value.isprintable() and len(value) <= LONGEST_TEXT):
        faults.add(pointer, f"expected at most {LONGEST_TEXT} printable characters")
    if isinstance(value, (int, float)) and not abs(value) < 2**63:
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


def _objectives(
    names: Sequence[str], mesh: Mesh | None, known: KnownObjectives, faults: _Faults
) -> tuple[str, ...]:
    """Return the objectives' names, expressions in their usual notation."""
    found: list[str] = []
    for k, text in enumerate(names):
        pointer = f"/objectives/{k}"
        try:
            name = known.named(text).name
        except ExpressionError as error:
            faults.add(pointer, str(error))
            continue
        except ValueError:
            if not faults.one_of(pointer, text, tuple(known.by_name), "objective"):
                continue
            raise
        if name in found:
            faults.add(pointer, f"{name} is there twice")
        elif mesh is not None:
            faults.attempt(pointer, known.require, [name], mesh.device)
        found.append(name)
    return tuple(found)


def _constraints(texts: Sequence[str], mesh: Mesh | None, known: KnownObjectives, faults: _Faults) -> None:
    for k, text in enumerate(texts):
        bound = faults.attempt(f"/constraints/{k}", parse_constraint, text, known)
        if bound is not None and not isfinite(bound.bound):
            faults.add(f"/constraints/{k}", f"{text!r} bounds nothing; leave it out")
        elif bound is not None and mesh is not None:
            faults.attempt(f"/constraints/{k}", known.require, [bound.objective], mesh.device)


def _compute_dtype(name: str, mesh: Mesh, faults: _Faults) -> None:
    device = mesh.device
    try:
        device.contraction_dtype(name)
    except ValueError as error:
        faults.add(
            "/compute_dtype", str(error), sorted({*device.peak_flops_per_s, *device.compute_dtype_default})
        )


def _rules(names: Sequence[str], faults: _Faults) -> None:
    known = tuple(catalog())
    for k, name in enumerate(names):
        faults.one_of(f"/rules/{k}", name, known, "rule", plug_ins().left_out(name))
