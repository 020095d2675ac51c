"""Uploaded files: written to temporary files that nobody else can read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi import Request, UploadFile
from starlette.concurrency import run_in_threadpool
from starlette.formparsers import MultiPartParser

PORTION = 2**20
IN_MEMORY_BYTES = 2**24


class PartsInMemory:
    """The bytes up to which the next part of a form stays in memory: for each part half of those of the one before.

    A form of any number of parts so holds at most twice the bytes of the first. The portions of larger parts are
    written to files, each by another thread: most of the time that it took to answer a repeated upload of some
    megabytes.
    """

    def __get__(self, parser: MultiPartParser | None, _: type[MultiPartParser]) -> int:
        before = 0 if parser is None else parser.__dict__.get("parts_in_memory", 0)
        if parser is not None:
            parser.__dict__["parts_in_memory"] = before + 1
        return max(1, IN_MEMORY_BYTES >> before)  # 0 would be without limit


def limit_forms() -> None:
    """Limit the memory of all forms that this process receives."""
    MultiPartParser.spool_max_size = PartsInMemory()  # type: ignore[assignment]


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
