"""Responses: standard JSON, cacheable documents by their ETag, compressed ones as they are stored."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tapestry.service.api.packing import GZIP_LEVEL

PORTION = 2**18
LEAST_GZIPPED_BYTES = 1400  # one packet
REVALIDATE = "private, no-cache"


def encoded(document: Any) -> bytes:
    """Encode a document as JSON text in ASCII; numbers not in JSON (infinity, not a number) are null."""
    try:
        text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(document), separators=(",", ":"), allow_nan=False)
    return text.encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(member) for member in value]
    return value


def answer(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Build the response for a document that may change at any time (`no-store`)."""
    kept = {"Cache-Control": "no-store", **(headers or {})}
    return Response(encoded(document), status, kept, "application/json")


def revalidated(request: Request, document: Any, cache_control: str = REVALIDATE) -> Response:
    """Build the response for a document with an ETag of its content; 304 without it for clients that have it."""
    content = encoded(document)
    return tagged(request, content, tag_of(content), cache_control)


def tagged(
    request: Request, content: bytes, tag: str, cache_control: str = REVALIDATE, gzipped: bytes | None = None
) -> Response:
    """Build the response for an encoded document by its ETag; 304 without it for clients that have it.

    It is gzipped for those who take that, unless it is small; `gzipped` is the content so, where it is known.
    """
    is_gzip = is_worth_gzip(content) and takes_gzip(request)
    tag = tag_in_gzip(tag) if is_gzip else tag
    headers = {"ETag": tag, "Cache-Control": cache_control, "Vary": "Accept-Encoding"}
    if _has(request, tag):
        return Response(status_code=304, headers=headers)
    if is_gzip:
        content, headers = gzipped or in_gzip(content), headers | {"Content-Encoding": "gzip"}
    return Response(content, headers=headers, media_type="application/json")


def is_worth_gzip(content: bytes) -> bool:
    """Return whether content is so large that it fits into fewer packets when it is gzipped."""
    return len(content) >= LEAST_GZIPPED_BYTES


def in_gzip(content: bytes) -> bytes:
    """Return content gzipped, the same bytes for the same content."""
    return gzip.compress(content, GZIP_LEVEL, mtime=0)


def tag_in_gzip(tag: str) -> str:
    """Return the ETag of gzipped content by that of the content: each encoding has its own (RFC 9110, 8.8.3)."""
    return f'{tag[:-1]}-gzip"'


def packed(request: Request, content: bytes, name: str) -> Response:
    """Build the response for gzipped JSON, decompressed for clients without gzip; `name` is for downloads."""
    is_gzip = takes_gzip(request)
    tag = tag_of(content, "gzip" if is_gzip else "plain")
    headers = download_headers(tag, name, is_gzip)
    if (kept := not_modified(request, tag)) is not None:
        return kept
    if is_gzip:
        return Response(content, headers=headers, media_type="application/json")
    return StreamingResponse(_unpacked(content), headers=headers, media_type="application/json")


def not_modified(request: Request, tag: str) -> Response | None:
    """Return 304 for a client that has the content with this ETag; None for others."""
    headers = {"ETag": tag, "Cache-Control": REVALIDATE, "Vary": "Accept-Encoding"}
    return Response(status_code=304, headers=headers) if _has(request, tag) else None


def takes_gzip(request: Request) -> bool:
    """Return whether the client accepts gzipped content."""
    return accepts_gzip(request.headers.get("accept-encoding", ""))


def download_headers(tag: str, name: str, is_gzip: bool) -> dict[str, str]:
    """Return the headers of a file called `name` in downloads, gzipped or not."""
    headers = {
        "ETag": tag,
        "Cache-Control": REVALIDATE,
        "Vary": "Accept-Encoding",
        "Content-Disposition": f'attachment; filename="{name}"',
    }
    return headers | ({"Content-Encoding": "gzip"} if is_gzip else {})


def _unpacked(content: bytes) -> Iterator[bytes]:
    """Yield the text in portions: explicit graphs are large, and other requests must not wait."""
    with gzip.open(io.BytesIO(content)) as file:
        while portion := file.read(PORTION):
            yield portion


def accepts_gzip(accepted: str) -> bool:
    """Return whether the value of `Accept-Encoding` allows gzip."""
    for part in accepted.lower().split(","):
        coding, _, quality = part.strip().partition(";")
        if coding.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def tag_of(content: bytes, kind: str = "") -> str:
    """Return the ETag of content; `kind` distinguishes its encodings."""
    digest = hashlib.sha256(content).hexdigest()[:32]
    return f'"{digest}{"-" + kind if kind else ""}"'


def _has(request: Request, tag: str) -> bool:
    return is_known(request.headers.get("if-none-match", ""), tag)


def is_known(given: str, tag: str) -> bool:
    """Return whether a client with this `If-None-Match` has the content with an ETag."""
    return given.strip() == "*" or tag in (part.strip().removeprefix("W/") for part in given.split(","))
