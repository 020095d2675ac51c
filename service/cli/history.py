"""Plans in files: parsing of plans as `tapestry optimize --json`, `show --json` and the API write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tapestry.costmodel.known_objectives import objective_called
from tapestry.costmodel.version import COST_MODEL_VERSION, UNVERSIONED
from tapestry.optimizer import knee
from tapestry.optimizer.run.options import OPTIONS
from tapestry.rewrites import Move
from tapestry.service.cli.errors import CommandError
from tapestry.service.explaining import moves_of
from tapestry.teg.faults import near_names

LARGEST_BYTES = 256 * 2**20

WANTED = "name a stored plan (`tapestry show RUN` lists a run's), or a file that `tapestry optimize --json` printed"


@dataclass(frozen=True)
class History:
    """A plan's moves, and the rest of its document: names of plan, program and mesh, costs, objectives.

    `cost_model` is the version of the cost model that computed `cost`; `dtype`, `launch` and `robust` are options of
    the run.
    """

    plan: str
    moves: tuple[Move, ...]
    cost: Mapping[str, float] = field(default_factory=dict)
    objectives: tuple[str, ...] = ()
    mesh: str = ""
    compute_dtype: str | None = None
    cost_model: int = COST_MODEL_VERSION
    dtype: str | None = None
    launch: str | None = None
    robust: float | None = None


def is_file(reference: str) -> bool:
    """Return whether a plan's reference names a file, `FILE` or `FILE:PLAN`, rather than a stored plan.

    Raises:
        CommandError: it is empty.
    """
    path, _ = _parts(reference)
    if not path.strip():
        raise CommandError(f"expected a plan, not {reference!r}; {WANTED}")
    return Path(path).exists() or path.endswith(".json") or "/" in path[:2]


def read_history(reference: str) -> History:
    """Read the plan of `FILE`, or the one of its frontier that `FILE:PLAN` names; else the knee of the frontier.

    Raises:
        CommandError: there is no such file or plan, or it contains no history.
    """
    path, wanted = _parts(reference)
    document = _load(path)
    shared = document if isinstance(document, Mapping) else {"moves": document}
    plan = shared
    if isinstance(shared.get("frontier"), list):
        plan = _chosen(path, [p for p in shared["frontier"] if isinstance(p, Mapping)], wanted, shared)
    moves = plan.get("moves")
    if not isinstance(moves, list):
        hint = "placements alone have no history; " if "blocks" in plan else ""
        raise CommandError(
            f"{path!r} says no history: {hint}expected 'moves', or a 'frontier' of plans with moves, such as "
            "`tapestry optimize --json` prints"
        )
    try:
        history = moves_of(moves)
    except ValueError as error:
        raise CommandError(f"{path!r}: {error}") from error
    mesh, dtype = shared.get("mesh"), shared.get("compute_dtype")
    return History(
        str(plan.get("plan", plan.get("id", Path(path).stem))),
        history,
        _figures(plan.get("cost")),
        _texts(shared.get("objectives")),
        mesh if isinstance(mesh, str) else "",
        dtype if isinstance(dtype, str) else None,
        _version(plan),
        *(_option(path, shared, name) for name in ("dtype", "launch", "robust")),
    )


def _option(path: str, document: Mapping[str, Any], name: str) -> Any:
    """Return the value of an option of the run that a document is of; the default where it states none."""
    known = next(option for option in OPTIONS if option.name == name)
    value = known.value_in(document)
    for fault in known.faults(value):
        raise CommandError(f"{path!r}: {name}: {fault.detail}")
    return value


def _version(plan: Mapping[str, Any]) -> int:
    """Return the version of the cost model that a plan's document names; those of older releases name none."""
    version = plan.get("cost_model")
    return version if isinstance(version, int) else UNVERSIONED


def _parts(reference: str) -> tuple[str, str]:
    """Split `FILE:PLAN` into the path and the plan."""
    path, colon, plan = reference.rpartition(":")
    return (path, plan) if colon and not Path(reference).exists() else (reference, "")


def _load(path: str) -> Any:
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_BYTES:
            raise CommandError(f"{path!r} is larger than the {LARGEST_BYTES:,} bytes that a plan may take")
        return json.loads(file.read_bytes())
    except OSError as error:
        raise CommandError(f"cannot read {path!r}: {error.strerror or error}; {WANTED}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path!r} is no text; {WANTED}") from error
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{path!r} is no JSON document: {error}; {WANTED}") from error


def _chosen(
    path: str, plans: Sequence[Mapping[str, Any]], wanted: str, shared: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the plan of a frontier with that name, else its knee."""
    if not plans:
        raise CommandError(f"the frontier of {path!r} has no plans")
    if wanted:
        found = [plan for plan in plans if str(plan.get("id", "")).startswith(wanted)]
        if len(found) == 1:
            return found[0]
        names = [str(plan.get("id", "")) for plan in plans]
        near = [str(p.get("id")) for p in found] or near_names(wanted, names, cutoff=0.4) or names
        raise CommandError(
            f"{path!r} has {'several plans' if found else 'no plan'} {wanted!r}; there are, e.g., {', '.join(near[:3])}"
        )
    if len(plans) == 1:
        return plans[0]
    objectives = _texts(shared.get("objectives"))
    costed = [_Costed(plan, _figures(plan.get("cost"))) for plan in plans]
    known = [n for n in objectives if all(n in c.cost for c in costed)]
    if not known:
        raise CommandError(f"{path!r} has {len(plans)} plans; say which, e.g. {path}:{plans[0].get('id')}")
    return knee(costed, [objective_called(n) for n in known]).plan


@dataclass(frozen=True)
class _Costed:
    plan: Mapping[str, Any]
    cost: Mapping[str, float]


def _figures(cost: Any) -> dict[str, float]:
    known = cost if isinstance(cost, Mapping) else {}
    return {str(k): v for k, v in known.items() if isinstance(v, int | float) and not isinstance(v, bool)}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()
