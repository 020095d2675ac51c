"""Tests of bodies: their type first, their length as it arrives, and text that is not JSON."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from starlette.datastructures import UploadFile
from starlette.requests import Request

from tapestry.service.api import uploads
from tapestry.service.api.uploads import limit_forms
from tapestry.service.settings import Limits
from tapestry.teg.document import to_document
from tests.service.api.conftest import Serve, Service, complaint
from tests.service.programs import two_layers

JSON = {"Content-Type": "application/json"}
SMALL = Limits(body_bytes=2000, document_bytes=3000, upload_bytes=4000)
PATHS = (
    ("/v1/runs", "application/json", 2000),
    ("/v1/plans/0123456789ab/executions", "application/json", 2000),
    ("/v1/graphs", "application/json", 3000),
    ("/v1/graphs/import", "multipart/form-data; boundary=x", 4000),
    ("/v1/plans/0123456789ab/export", "multipart/form-data; boundary=x", 4000),
    ("/login", "application/x-www-form-urlencoded", 2000),
)


@pytest.mark.parametrize(("path", "kind", "limit"), PATHS)
def test_a_body_that_says_it_is_too_large_is_not_read(serve: Serve, path: str, kind: str, limit: int) -> None:
    service = serve(limits=SMALL)
    answer = service.http.post(path, content=b" " * (limit + 1), headers={"Content-Type": kind})
    assert f"more than the {limit:,} bytes" in complaint(answer, 413, "too_large")["detail"]


def test_a_body_that_never_comes_is_not_waited_for(service: Service) -> None:
    address = urlsplit(service.address)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        head = f"POST /v1/runs HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: {10**17}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(("path", "kind", "limit"), PATHS)
def test_a_body_that_does_not_say_its_length_is_counted(
    serve: Serve, path: str, kind: str, limit: int
) -> None:
    service = serve(limits=SMALL)
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        if kind.startswith("multipart"):
            yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        while sent < 100 * limit:
            yield b" " * 500
            sent += 500

    answer = service.http.post(path, content=endless(), headers={"Content-Type": kind})
    complaint(answer, 413, "too_large")


def test_a_body_at_its_limit_is_read(serve: Serve) -> None:
    service = serve(limits=SMALL)
    answer = service.http.post("/v1/runs", content=b"{}".ljust(2000), headers=JSON)
    complaint(answer, 422, "invalid")


@pytest.mark.parametrize(
    "path", ["/v1/runs", "/v1/graphs", "/v1/graphs/import", "/v1/plans/0123456789ab/executions"]
)
@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "", "json", "application/jsonx"])
def test_another_type_of_body_is_refused(shared: Service, path: str, kind: str) -> None:
    headers = {"Content-Type": kind} if kind else {}
    document = complaint(
        shared.http.post(path, content=b"{}", headers=headers), 415, "unsupported_media_type"
    )
    expected = "multipart/form-data" if path.endswith("import") else "application/json"
    expected += " or multipart/form-data" if path.endswith("executions") else ""
    assert document["detail"] == f"expected Content-Type: {expected}, not {kind or 'none'}"


def test_json_by_other_names_is_json(shared: Service) -> None:
    for kind in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/problem+json"):
        content = json.dumps(shared.request())
        assert (
            shared.http.post("/v1/runs", content=content, headers={"Content-Type": kind}).status_code == 202
        )


PACKED = {**JSON, "Content-Encoding": "gzip"}
PACKED_OBJECT = gzip.compress(
    b"{}", mtime=0
)  # the time would be part of the names of tests, which differ between processes


def test_gzipped_bodies_are_read(shared: Service) -> None:
    content = gzip.compress(json.dumps(shared.request()).encode())
    text = json.dumps(shared.request()).encode()
    members = gzip.compress(text[:7]) + gzip.compress(text[7:])
    for sent in (
        content,
        iter([content[:1], content[1:10], content[10:]]),
        members,
        iter([members[:25], members[25:]]),
    ):
        assert shared.http.post("/v1/runs", content=sent, headers=PACKED).status_code == 202
    document = gzip.compress(json.dumps(to_document(two_layers("packed"))).encode())
    assert shared.http.post("/v1/graphs", content=document, headers=PACKED).status_code in (200, 201)


def test_what_a_gzipped_body_becomes_is_limited(serve: Serve) -> None:
    """Check 2 MB of blanks in 2,000 bytes: they are not unpacked beyond what is allowed."""
    service = serve(limits=SMALL)
    content = gzip.compress(b" " * 1_900_000)
    assert len(content) < 2000
    answer = service.http.post("/v1/runs", content=content, headers=PACKED)
    assert "unpacked, the body has more than the 2,000 bytes" in complaint(answer, 413, "too_large")["detail"]
    body = b"{}".ljust(2000)
    answer = service.http.post("/v1/runs", content=gzip.compress(body), headers=PACKED)
    complaint(answer, 422, "invalid")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "is not gzipped"),
        (PACKED_OBJECT[:-3], "ends before its gzipped content does"),
        (PACKED_OBJECT + b"x" * 20, "is not gzipped"),
        (PACKED_OBJECT[:10], "ends before its gzipped content does"),
    ],
)
def test_what_is_not_gzipped_is_malformed(shared: Service, content: bytes, message: str) -> None:
    answer = shared.http.post("/v1/runs", content=content, headers=PACKED)
    assert message in complaint(answer, 400, "malformed")["detail"]


def test_bodies_packed_otherwise_are_refused(shared: Service) -> None:
    for encoding in ("br", "deflate", "gzip, gzip"):
        headers = {**JSON, "Content-Encoding": encoding}
        answer = shared.http.post("/v1/runs", content=b"{}", headers=headers)
        assert "gzip" in complaint(answer, 415, "unsupported_media_type")["detail"]


@pytest.mark.parametrize(
    "content",
    [b"{", b"{'a': 1}", b"\xff", b"{}}", b"nul", b"[" * 200_000, b'{"seed": ' + b"9" * 5000 + b"}"],
)
def test_what_is_no_json_is_malformed(shared: Service, content: bytes) -> None:
    complaint(shared.http.post("/v1/runs", content=content, headers=JSON), 400, "malformed")


@pytest.mark.parametrize("content", [b"[]", b"5", b'"text"', b"null", b"true"])
def test_json_that_is_no_object_is_refused(shared: Service, content: bytes) -> None:
    faults = complaint(shared.http.post("/v1/runs", content=content, headers=JSON), 422, "invalid")["errors"]
    assert [fault["pointer"] for fault in faults] == [""]


def test_a_missing_body_is_reported(shared: Service) -> None:
    faults = complaint(shared.http.post("/v1/runs"), 422, "invalid")["errors"]
    assert faults == [{"pointer": "", "detail": "the body is missing: send a JSON object"}]


def test_a_broken_form_is_malformed(shared: Service) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    for content in (b"no part", b"--b\r\nno header"):
        answer = shared.http.post("/v1/graphs/import", content=content, headers=kind)
        assert answer.status_code in (400, 422)
        complaint(answer, answer.status_code, answer.json()["code"])


def test_a_form_of_many_parts_is_not_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="%d"; filename="a"\r\n\r\n' + b"." * 20 + b"\r\n"
    body = b"".join(part % k for k in range(80)) + b"--x--\r\n"

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    monkeypatch.setattr(uploads, "IN_MEMORY_BYTES", 64)
    limit_forms()
    scope = {"type": "http", "headers": [(b"content-type", b"multipart/form-data; boundary=x")]}

    async def parse() -> list[bool]:
        async with Request(scope, receive).form() as form:
            return [isinstance(file, UploadFile) and file._in_memory for file in form.values()]

    held = asyncio.run(parse())
    assert held == [True, True] + [False] * 78
