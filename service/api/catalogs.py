"""The catalogs: meshes, devices, rules, operators, objectives; read once, the same for all clients."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from tapestry.service import catalogs
from tapestry.service.api.answers import revalidated
from tapestry.service.api.models import CatalogAnswer
from tapestry.service.api.openapi_parts import KEPT, json_answer, problems
from tapestry.service.api.problems import Problem
from tapestry.service.rules import rules
from tapestry.teg.faults import Fault, near_names

FOR_A_MINUTE = "private, max-age=60"
PLUGINS = "What others have added by installing it, and what of it was left out and why."
Read = Callable[[], list[dict[str, Any]]]
Find = Callable[[str], dict[str, Any] | None]
CATALOGS: tuple[tuple[str, Read, str], ...] = (
    ("meshes", catalogs.meshes, "Meshes that plans can be made for."),
    ("devices", catalogs.devices, "Devices that meshes are made of, every figure with its unit."),
    ("rules", rules, "How programs and placements may be changed."),
    ("operators", catalogs.operators, "What blocks of a program may compute."),
    ("objectives", catalogs.objectives, "List the costs that a search can minimize."),
)


def new_router() -> APIRouter:
    """Build the endpoints of all catalogs: the list of each, and each member by its name."""
    router = APIRouter(prefix="/v1", tags=["catalogs"])
    for name, read, summary in CATALOGS:
        kept = cache(read)
        _add_list(router, name, kept, summary)
        _add_member(router, name, kept, summary, catalogs.mesh_by_count if name == "meshes" else _none)
    _add_list(router, "plugins", cache(catalogs.plugins), PLUGINS)
    return router


def _add_list(router: APIRouter, name: str, read: Read, summary: str) -> None:
    def list_all(request: Request) -> Response:
        return revalidated(request, {"items": read()}, FOR_A_MINUTE)

    list_all.__doc__ = summary
    router.add_api_route(
        f"/{name}",
        list_all,
        response_model=CatalogAnswer,
        responses=KEPT | problems(),
        operation_id=f"list_{name}",
        summary=f"List {name}",
    )


def _none(name: str) -> dict[str, Any] | None:
    """Return None: a catalog whose members are all listed."""
    return None


def _add_member(router: APIRouter, name: str, read: Read, summary: str, unlisted: Find) -> None:
    first = read()[0]
    named = Path(description="its name", examples=[first["name"]])

    def get_one(request: Request, member: str = named) -> Response:
        by_name = {item["name"]: item for item in read()}
        found = by_name.get(member) or unlisted(member)
        if found is None:
            message = f"nothing among the {name} is called {member[:80]!r}"
            near = near_names(member, by_name)
            raise Problem(404, "unknown_id", message, (Fault("#path/member", message, near),))
        return revalidated(request, found, FOR_A_MINUTE)

    get_one.__doc__ = f"One of the {name} by its name."
    router.add_api_route(
        f"/{name}/{{member}}",
        get_one,
        response_class=Response,
        responses=json_answer(summary, first) | problems(404),
        operation_id=f"get_{name}",
        summary=f"Show one of the {name}",
    )
