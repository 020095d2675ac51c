"""Uploaded files: written to temporary files that nobody else can read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi import Request, UploadFile
from starlette.concurrency import run_in_threadpool

PORTION = 2**20
# Parts of forms up to this size stay in memory until they are read. The portions of others are written to a file, each
# by another thread: most of the time that it took to answer a repeated upload of some megabytes.
IN_MEMORY_BYTES = 2**24


@contextmanager
def private_file(ending: str = "") -> Iterator[Path]:
    """Create a temporary file that nobody else can read, yield its path and delete it afterwards."""
    handle, name = tempfile.mkstemp(ending, prefix="tapestry-upload-")
    os.close(handle)
    try:
        yield Path(name)
    finally:
        os.unlink(name)


@contextmanager
def private_folder() -> Iterator[Path]:
    """Create a temporary folder that nobody else can read, yield its path and delete it with all in it afterwards."""
    with tempfile.TemporaryDirectory(prefix="tapestry-upload-") as name:
        yield Path(name)


def receive(upload: UploadFile, path: Path) -> None:
    """Write a part of a form to a file."""
    with path.open("wb") as target:
        while portion := upload.file.read(PORTION):
            target.write(portion)


async def receive_body(request: Request, path: Path) -> None:
    """Write the body of a request to a file."""
    with path.open("wb") as target:
        async for portion in request.stream():
            await run_in_threadpool(target.write, portion)
