"""Tests of pages of other sites: a browser may be led here by one, but neither write nor read."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import pytest

from tests.service.api.conftest import Serve, Service, complaint

FOREIGN = (
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": ""},
    {"Origin": "https://example.org"},
    {"Origin": "http://localhost:1"},
    {"Origin": "null"},
    {"Origin": "http://["},
    {"Origin": ""},
)


@pytest.mark.parametrize("headers", FOREIGN)
def test_writes_that_another_page_began_are_refused(shared: Service, headers: dict[str, str]) -> None:
    before = shared.http.get("/v1/runs").json()["items"]
    complaint(shared.submit(headers=headers), 403, "cross_site")
    upload = shared.http.post("/v1/graphs/import", files={"file": b"x"}, headers=headers)
    complaint(upload, 403, "cross_site")
    assert shared.http.get("/v1/runs").json()["items"] == before


def test_writes_of_our_own_pages_and_of_programs_are_taken(shared: Service) -> None:
    own = urlsplit(shared.address)
    for headers in (
        {},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": shared.address},
        {"Origin": f"HTTP://{own.netloc}"},
    ):
        assert shared.submit(headers=headers).status_code == 202


def test_reading_is_allowed_to_navigation_but_no_other_origin_is(shared: Service) -> None:
    answer = shared.http.get(
        "/v1/runs", headers={"Origin": "https://example.org", "Sec-Fetch-Site": "cross-site"}
    )
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]
    preflight = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    assert shared.http.options("/v1/runs", headers=preflight).status_code == 405


@pytest.mark.parametrize(
    "host", ["example.org", "127.0.0.1.example.org", "", "[", "localhost.", "169.254.169.254"]
)
def test_names_that_others_made_lead_here_are_not_answered(shared: Service, host: str) -> None:
    for path in ("/v1/runs", "/", "/healthz", "/docs"):
        complaint(shared.http.get(path, headers={"Host": host}), 421, "unknown_host")


def test_names_of_this_host_are_answered(shared: Service) -> None:
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]:8000"):
        assert shared.http.get("/healthz", headers={"Host": host}).status_code == 200


def test_names_may_be_allowed(serve: Serve) -> None:
    service = serve(allowed_hosts=("tapestry.example",))
    assert service.http.get("/healthz", headers={"Host": "tapestry.example"}).status_code == 200
    complaint(service.http.get("/healthz", headers={"Host": "other.example"}), 421, "unknown_host")


def test_every_answer_says_how_it_may_be_used(shared: Service) -> None:
    for path, host in (("/v1/runs", ""), ("/nothing", ""), ("/", ""), ("/v1/runs", "example.org")):
        headers = shared.http.get(path, headers={"Host": host} if host else {}).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe-eval" not in policy and "script-src" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_a_form_of_another_site_needs_no_header_to_be_refused(shared: Service) -> None:
    """Check a form's types, which an old browser sends and JSON endpoints do not take."""
    address = urlsplit(shared.address)
    body = json.dumps(shared.request()).encode()
    head = (
        f"POST /v1/runs HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(head.encode() + body)
        assert connection.recv(100).startswith(b"HTTP/1.1 415 ")
