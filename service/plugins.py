"""Plug-ins as the command line, the API and the records of runs list them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapestry.costmodel import objectives
from tapestry.hardware.catalog import device_plugins, mesh_plugins
from tapestry.rewrites import rules
from tapestry.rewrites import testing as rule_testing
from tapestry.rewrites.plugin_checks import RULE_GROUP
from tapestry.teg import operators
from tapestry.teg.operators import testing as operator_testing
from tapestry.teg.operators.plugin_checks import OPERATOR_GROUP
from tapestry.teg.plugins import PlugIn, PlugInIssue

PREFIX = "plugin:"
AUTHOR = (
    "it violates the contract of its kind: its author should see `contract_violations` in docs/plugins.md"
)


def plug_ins() -> tuple[PlugIn, ...]:
    """Return all entry points of installed plug-ins, in the order in which their groups build on each other."""
    groups = (
        operators.plug_ins(),
        rules.plug_ins(),
        device_plugins(),
        mesh_plugins(),
        objectives.plug_ins(),
    )
    return tuple(plug_in for group in groups for plug_in in group.plug_ins)


def checked(rng: np.random.Generator) -> tuple[PlugIn, ...]:
    """Return the plug-ins, with violations of declared properties of operators and rules among the faults; takes
    seconds.

    A device, mesh or objective is checked as a whole whenever it is loaded.
    """
    broken: dict[str, dict[str, Sequence[str]]] = {
        RULE_GROUP.name: {
            name: rule_testing.contract_violations(rule, rng)
            for name, rule in rules.plug_ins().members.items()
        },
        OPERATOR_GROUP.name: {
            name: operator_testing.contract_violations(operator, rng)
            for name, operator in operators.plug_ins().members.items()
        },
    }
    return tuple(_with(plug_in, broken.get(plug_in.group, {})) for plug_in in plug_ins())


def _with(plug_in: PlugIn, broken: Mapping[str, Sequence[str]]) -> PlugIn:
    found = [
        PlugInIssue(name, message, AUTHOR) for name in plug_in.members for message in broken.get(name, ())
    ]
    return replace(plug_in, faults=(*plug_in.faults, *found))


def versions(found: Iterable[PlugIn] | None = None) -> dict[str, str]:
    """Return the versions of the distributions with accepted members, by name prefixed with `plugin:`."""
    chosen = plug_ins() if found is None else found
    return {f"{PREFIX}{p.distribution or p.value}": p.version for p in chosen if p.members}


def document(plug_in: PlugIn) -> dict[str, Any]:
    """Convert a plug-in to JSON."""
    return {
        "group": plug_in.group,
        "name": plug_in.name,
        "value": plug_in.value,
        "distribution": plug_in.distribution,
        "version": plug_in.version,
        "members": list(plug_in.members),
        "faults": [{"member": f.member, "message": f.message, "hint": f.hint} for f in plug_in.faults],
    }
