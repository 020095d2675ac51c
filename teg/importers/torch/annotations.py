"""User-specified facts about a program: the roles of its inputs, and whose next values its outputs are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tapestry.teg.graph import ROLES
from tapestry.teg.importers.carried_state import STATES
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.torch.listing import Listing


def apply_annotations(listing: Listing, roles: Mapping[str, str], carries: Mapping[str, str]) -> Listing:
    """Return the listing with `roles` (input -> role) and `carries` (output -> input) as the user specified.

    A role's key is an input, as the user or as the calls name it, or selects all inputs below it (`weights` for
    `weights_0`, `weights.layer`). Where roles say that there is state, the outputs that carry it are
    recognized by dataflow.

    Raises:
        ImportFailure: a key names no input or output, or a role is unknown.
    """
    if not roles and not carries:
        return listing
    given = _roles(listing, roles)
    inputs = tuple(replace(i, role=given.get(i.value.name, i.role)) for i in listing.inputs)
    sites = {i.ref: i.value.name for i in inputs} | {i.value.name: i.value.name for i in inputs}
    known = {o.name for o in listing.outputs}
    for output in carries:
        if output not in known:
            raise ImportFailure(
                f"{listing.name}: there is no output {output!r} to carry a state; outputs are {_listed(known)}"
            )
    named = {output: sites.get(state, state) for output, state in carries.items()}
    outputs = tuple(replace(o, carries=None) if o.name in named else o for o in listing.outputs)
    wanted = listing.carries is not None or named or any(r in STATES for r in given.values())
    return replace(listing, inputs=inputs, outputs=outputs, carries=named if wanted else None)


def _roles(listing: Listing, roles: Mapping[str, str]) -> dict[str, str]:
    """Return the role of each input that the user specified, by the input's name."""
    given: dict[str, str] = {}
    for key, role in roles.items():
        if role not in ROLES:
            raise ImportFailure(f"unknown role {role!r} of {key!r}; use {', '.join(ROLES)}")
        found = [i for i in listing.inputs if key in (i.value.name, i.ref)]
        found = found or [i for i in listing.inputs if i.value.name.startswith((f"{key}_", f"{key}."))]
        if not found and key not in listing.idle:
            names = {i.value.name for i in listing.inputs}
            raise ImportFailure(
                f"{listing.name}: there is no input {key!r} to be a {role}; inputs are {_listed(names)}"
            )
        given.update((i.value.name, role) for i in found)
    return given


def _listed(names: set[str]) -> str:
    shown = sorted(names)[:12]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "")
