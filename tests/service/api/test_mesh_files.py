"""Tests of the mesh files that the form for a run sends: read by the pool, whatever they hold."""

from __future__ import annotations

import pytest

from tests.service.api.conftest import Service


def test_a_mesh_file_is_read_for_the_form(shared: Service) -> None:
    text = 'name = "mine"\n[[axes]]\nname = "gpu"\nsize = 4\n'
    answer = shared.http.post("/runs/new/mesh", json={"text": text})
    assert answer.json() == {"name": "mine", "axes": [{"name": "gpu", "size": 4}]}


@pytest.mark.parametrize("text", ["name = ", "size = inf", "a = " + 10_000 * "[", "\0"])
def test_what_is_no_mesh_file_is_refused(shared: Service, text: str) -> None:
    answer = shared.http.post("/runs/new/mesh", json={"text": text})
    assert answer.status_code == 422 and answer.json()["detail"].startswith("This is no TOML: ")


@pytest.mark.slow
def test_a_key_of_many_parts_does_not_bring_the_service_down(shared: Service) -> None:
    answer = shared.http.post("/runs/new/mesh", json={"text": 100_000 * "a." + "a = 1"}, timeout=120)
    assert answer.status_code in (422, 503)
    assert shared.http.get("/healthz").status_code == 200
