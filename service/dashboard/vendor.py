"""Plotly's script out of its installed Python package, packed once; nothing is loaded from another host."""

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
    """The version of the installed package, which is also that of its script's cache."""
    return version("plotly")


@cache
def plotly_url() -> str:
    """Where pages find the script; another version has another address."""
    return f"{PATH}?{urlencode({'v': plotly_version()})}"


@cache
def _packed() -> bytes:
    return gzip.compress(files("plotly").joinpath("package_data", "plotly.min.js").read_bytes(), 6, mtime=0)


def plotly_script(request: Request) -> Response:
    """The script, gzipped for those who can unpack it; kept by browsers when asked for by its version."""
    is_versioned = request.query_params.get("v") == plotly_version()
    headers = {"Cache-Control": FOR_A_YEAR if is_versioned else UNCACHED, "Vary": "Accept-Encoding"}
    content = _packed()
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
    else:
        content = gzip.decompress(content)
    return Response(content, headers=headers, media_type="text/javascript")
