"""Tests of catalogs: everything that a request may name, and each member by its name."""

from __future__ import annotations

import pytest

from tapestry.costmodel.objectives import NAMES
from tapestry.hardware import device_names, mesh_from_dict, mesh_names
from tapestry.rewrites import PLACEMENT, catalog
from tapestry.teg.operators import catalog as operators
from tests.service.api.conftest import Service, complaint

MEMBERS = {
    "meshes": list(mesh_names()),
    "devices": list(device_names()),
    "rules": [*catalog(), *(rule.name for rule in PLACEMENT)],
    "operators": list(operators()),
    "objectives": list(NAMES),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_a_catalog_lists_every_member_and_shows_each(shared: Service, name: str) -> None:
    items = shared.http.get(f"/v1/{name}").json()["items"]
    assert [item["name"] for item in items] == MEMBERS[name]
    for item in items:
        assert shared.http.get(f"/v1/{name}/{item['name']}").json() == item


@pytest.mark.parametrize("name", MEMBERS)
def test_near_names_are_offered(shared: Service, name: str) -> None:
    wanted = MEMBERS[name][0]
    fault = complaint(shared.http.get(f"/v1/{name}/{wanted}x"), 404, "unknown_id")["errors"][0]
    assert fault["pointer"] == "#path/member"
    assert wanted in fault["allowed"]


@pytest.mark.parametrize(
    "member", ["x", "%2e%2e%2fetc%2fpasswd", "..%5cx.toml", "%00", "a" * 5000, "dgx-h100.toml"]
)
def test_names_are_no_paths(shared: Service, member: str) -> None:
    for name in MEMBERS:
        answer = shared.http.get(f"/v1/{name}/{member}")
        assert answer.status_code == 404
        complaint(answer, 404, answer.json()["code"])


def test_a_mesh_that_is_listed_can_be_posted_with_changes(shared: Service) -> None:
    listed = shared.http.get("/v1/meshes/dgx-h100").json()
    count = listed.pop("device_count")
    assert mesh_from_dict(listed).device_count == count == 8
    assert shared.submit(mesh={**listed, "name": "mine"}).status_code == 202
