"""Tests of the key: a request without it gets only health checks, one with it everything, by header or cookie."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tapestry.service.api.app import create_app
from tapestry.service.settings import ServiceSettings, SettingsError
from tests.service.api.conftest import Service, complaint, file_of, serving

KEY = "correct horse battery staple"
BEARER = {"Authorization": f"Bearer {KEY}"}
PROTECTED = (
    "/v1/graphs",
    "/v1/runs",
    "/v1/meshes",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/docs/start.js",
    "/",
)


@pytest.fixture(scope="module")
def service_with_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("key"), api_key=KEY) as service:
        yield service


@pytest.fixture
def locked(service_with_key: Service) -> Service:
    """Return a service that wants a key, and a client of it that has no cookie."""
    service_with_key.http.cookies.clear()
    return service_with_key


@pytest.mark.parametrize("path", PROTECTED)
def test_without_the_key_nothing_is_disclosed(locked: Service, path: str) -> None:
    answer = locked.http.get(path)
    complaint(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert locked.http.get(path, headers=BEARER).status_code == 200


def test_every_endpoint_of_the_reference_wants_the_key(locked: Service) -> None:
    paths = locked.http.get("/openapi.json", headers=BEARER).json()["paths"]
    requested = 0
    for path, operations in paths.items():
        for method in operations:
            status = locked.http.request(method.upper(), path.replace("{", "").replace("}", "")).status_code
            assert status == (200 if path in ("/healthz", "/readyz") else 401), (method, path)
            requested += 1
    assert requested >= 25


def test_what_must_stay_open_is_open(locked: Service) -> None:
    for path in ("/healthz", "/readyz", "/login"):
        assert locked.http.get(path).status_code == 200


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer wrong",
        f"Basic {KEY}",
        f"Bearer {KEY[:-1]}",
        f"Bearer {KEY}x",
        KEY,
        "Bearer \xe9",
    ],
)
def test_a_wrong_key_is_no_key(locked: Service, given: str) -> None:
    answer = locked.http.get("/v1/runs", headers={"Authorization": given.encode("latin-1")})
    complaint(answer, 401, "unauthorized")


def test_a_browser_is_led_to_the_login_and_back(locked: Service) -> None:
    html = {"Accept": "text/html"}
    led = locked.http.get("/runs/new", headers=html)
    assert (led.status_code, led.headers["location"]) == (303, "/login?next=/runs/new")
    wrong = locked.http.post("/login", data={"key": "guess", "next": "/runs/new"})
    assert wrong.headers["location"].startswith("/login?wrong=1")
    assert "set-cookie" not in wrong.headers
    right = locked.http.post("/login", data={"key": KEY, "next": "/runs/new"})
    assert (right.status_code, right.headers["location"]) == (303, "/runs/new")
    cookie = right.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert KEY not in right.headers["set-cookie"]
    assert locked.http.get("/v1/runs").status_code == 200  # the client keeps cookies
    locked.http.post("/logout")
    complaint(locked.http.get("/v1/runs"), 401, "unauthorized")


def test_programs_are_refused_rather_than_led(locked: Service) -> None:
    complaint(locked.http.get("/v1/runs", headers={"Accept": "text/html"}), 401, "unauthorized")


@pytest.mark.parametrize(
    "target", ["https://example.org", "//example.org", "/\\example.org", "example.org", "/\t/x", ""]
)
def test_the_login_leads_to_no_other_site(locked: Service, target: str) -> None:
    answer = locked.http.post("/login", data={"key": KEY, "next": target})
    assert answer.headers["location"] == "/"


def test_forged_cookies_are_no_key(locked: Service) -> None:
    for value in ("", KEY, "0" * 64, '"', "é"):
        answer = locked.http.get("/v1/runs", headers={"Cookie": f"tapestry_key={value}".encode("latin-1")})
        complaint(answer, 401, "unauthorized")


def test_others_are_let_in_with_a_key_only(tmp_path: Path) -> None:
    settings = ServiceSettings(file_of(tmp_path), host="0.0.0.0")
    with pytest.raises(SettingsError, match="so a key is needed: make one"):
        create_app(settings)
    with serving(tmp_path) as service:
        service.store.keys.add("ci", "read", datetime.now(UTC))
    create_app(settings).state.context.close()  # one with a name will do
    with pytest.raises(SettingsError, match="at least 16 characters"):
        ServiceSettings("sqlite://", host="0.0.0.0", api_key="short")
