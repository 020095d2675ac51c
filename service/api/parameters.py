"""Query parameters: one that an endpoint does not know is refused, with those that it knows."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from tapestry.service.api.problems import invalid
from tapestry.teg.faults import Fault, no_such

PATHS = ("/v1/", "/healthz", "/readyz", "/metrics")  # pages take what links to them say


async def check_parameters(request: Request) -> None:
    """Check that all query parameters of a request are known: a wrong name would change nothing, and say nothing.

    Raises:
        Problem: 422, with the place of each unknown one and the names that are near.
    """
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute) or not request.url.path.startswith(PATHS):
        return
    known = list(_names(route.dependant))
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in known]
    if unknown:
        hint = "" if known else "there are none here"
        raise invalid([Fault(f"#query/{n}", no_such("parameter", n, known, hint=hint)) for n in unknown])


def _names(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters of an endpoint and of what it depends on."""
    yield from (field.alias for field in dependant.query_params)
    for each in dependant.dependencies:
        yield from _names(each)
