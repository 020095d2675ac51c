"""The peer of `benchmarks.reading`: a bare FastAPI application that answers with the bytes of files.

python -m benchmarks.reading_peer PORT RUN_FILE FRONTIER_FILE
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Response


def application(run: bytes, frontier: bytes) -> FastAPI:
    """Create an application with two endpoints, each of which answers with the same bytes whatever the id is."""
    app = FastAPI()

    @app.get("/v1/runs/{run_id}")
    async def get_run(run_id: str) -> Response:
        return Response(run, media_type="application/json")

    @app.get("/v1/runs/{run_id}/frontier")
    async def get_frontier(run_id: str) -> Response:
        return Response(frontier, media_type="application/json")

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    return app


def main(argv: Sequence[str]) -> None:
    """Serve the contents of two files on a port."""
    port, run, frontier = argv
    app = application(Path(run).read_bytes(), Path(frontier).read_bytes())
    uvicorn.run(app, port=int(port), log_level="error", access_log=False)


if __name__ == "__main__":
    main(sys.argv[1:])
