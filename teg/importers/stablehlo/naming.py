"""Names of a program's inputs and outputs: the path in the caller's data where it is known, else the position."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from tapestry.teg.graph import ROLES
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.stablehlo.module import Function

# One step of a path as JAX prints it: ['key'], [0], .field
STEP = re.compile(r"""\[["']?([^\]"']*)["']?\]""")


def plain(path: str) -> str:
    """Convert a path of JAX to one with dots: `params['layer'][0]` is `params.layer.0`."""
    return STEP.sub(r".\1", path).strip(".")


def input_names(function: Function) -> tuple[str, ...]:
    """Return the names of a function's arguments: their paths, or `arg0`, `arg1`, ..."""
    return _unique([plain(port.name) or f"arg{k}" for k, port in enumerate(function.arguments)])


def output_names(function: Function, taken: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a function's results: their paths, or `result0`, `result1`, ...; none is an input's."""
    stated = [str(port.attributes.get("jax.result_info", "")) for port in function.results]
    names = [plain(info) or f"result{k}" for k, info in enumerate(stated)]
    names = [f"result.{n}" if info[:1] in "[." and info else n for n, info in zip(names, stated, strict=True)]
    return _unique([f"{n}.out" if n in taken else n for n in names])


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    counts = Counter(names)
    return tuple(n if counts[n] == 1 else f"{n}.{k}" for k, n in enumerate(names))


def roles_of(names: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the roles that the caller gave to inputs, by name; a key selects the input or all inputs below it.

    Raises:
        ImportFailure: a key names no input, or a role is unknown.
    """
    roles: dict[str, str] = {}
    for key, role in given.items():
        if role not in ROLES:
            raise ImportFailure(f"unknown role {role!r} of {key!r}; use {', '.join(ROLES)}")
        found = [n for n in names if n == plain(key) or n.startswith(f"{plain(key)}.")]
        if not found:
            raise ImportFailure(f"there is no input {key!r} to be a {role}; inputs are {', '.join(names)}")
        roles.update(dict.fromkeys(found, role))
    return roles
