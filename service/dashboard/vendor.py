"""Plotly's script from its installed Python package, compressed once; nothing is loaded from another host."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from urllib.parse import urlencode

from fastapi import Request, Response

PATH = "/static/vendor/plotly.min.js"
FOR_A_YEAR = "public, max-age=31536000, immutable"
UNCACHED = "no-cache"


@cache
def plotly_version() -> str:
    """Return the version of the installed package, which is also that of its script's cache."""
    return version("plotly")


@cache
def plotly_url() -> str:
    """Return the address of the script for pages; another version has another address."""
    return f"{PATH}?{urlencode({'v': plotly_version()})}"


@cache
def _packed() -> bytes:
    return gzip.compress(files("plotly").joinpath("package_data", "plotly.min.js").read_bytes(), 6, mtime=0)


def plotly_script(request: Request) -> Response:
    """Serve the script, gzipped for clients that accept it; cached by browsers when requested by its version."""
    is_versioned = request.query_params.get("v") == plotly_version()
    headers = {"Cache-Control": FOR_A_YEAR if is_versioned else UNCACHED, "Vary": "Accept-Encoding"}
    content = _packed()
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
    else:
        content = gzip.decompress(content)
    return Response(content, headers=headers, media_type="text/javascript")
