"""Tests of the documents of devices and meshes over HTTP: the same as computed here, names, and what is refused."""

from __future__ import annotations

import json

import pytest

from tapestry.service.device_curves import device_document
from tapestry.service.mesh_curves import mesh_document
from tests.service.api.conftest import Service, complaint


def test_a_device_is_shown_with_figures_and_measured_kernels(shared: Service) -> None:
    answer = shared.http.get("/v1/devices/h200-sxm-141gb/curves")
    assert answer.json() == json.loads(json.dumps(device_document("h200-sxm-141gb")))
    assert len(answer.json()["measured"]["kernels"]) == 254
    again = shared.http.get(
        "/v1/devices/h200-sxm-141gb/curves", headers={"If-None-Match": answer.headers["etag"]}
    )
    assert again.status_code == 304
    assert shared.http.get("/v1/devices/H200/curves").json() == answer.json()


@pytest.mark.parametrize("name", ["dgx-h100", "2x-dgx-h100", "dgx-h100+dgx-a100"])
def test_a_mesh_or_several_of_its_nodes_are_shown(shared: Service, name: str) -> None:
    answer = shared.http.get(f"/v1/meshes/{name}/curves")
    assert answer.json() == json.loads(json.dumps(mesh_document(name)))


@pytest.mark.parametrize(
    ("kind", "name", "near"), [("devices", "h200-sxm", "h200-sxm-141gb"), ("meshes", "dgx-h10", "dgx-h100")]
)
def test_near_names_are_offered(shared: Service, kind: str, name: str, near: str) -> None:
    fault = complaint(shared.http.get(f"/v1/{kind}/{name}/curves"), 404, "unknown_id")["errors"][0]
    assert fault["pointer"] == "#path/member"
    assert near in fault["allowed"]


@pytest.mark.parametrize(
    "member", ["..%5cx.toml", "%00", "a" * 3000, "dgx-h100.toml", "0x-dgx-h100", "9999999x-dgx-h100"]
)
def test_names_are_no_paths_and_counts_are_bounded(shared: Service, member: str) -> None:
    for kind in ("devices", "meshes"):
        answer = shared.http.get(f"/v1/{kind}/{member}/curves")
        complaint(answer, 404, answer.json()["code"])
