"""Uploaded programs are read at once, or as jobs where that takes long; what is acknowledged is in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tapestry.service.api import tasks
from tapestry.service.api.context import Context
from tapestry.service.api.preferences import Preferences
from tapestry.service.api.task_pool import TooSlow
from tapestry.service.importing import SaveResult
from tapestry.service.store import ImportRequest

PORTION = 4 * 2**20


class ProgramUpload(NamedTuple):
    """An uploaded program in a private file, with its external data by name in a private folder.

    `key` is a hash of all that decides what is read from it.
    """

    key: str
    request: ImportRequest
    program: Path
    folder: Path
    data: Mapping[str, Path] = {}

    @property
    def files(self) -> Sequence[Path]:
        """The program and its external data, in the order of the request."""
        return (self.program, *(self.data[name] for name in self.request.data))

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(path.stat().st_size for path in self.files)


def read_upload(parts: Context, upload: ProgramUpload, preferences: Preferences) -> SaveResult | str:
    """Read a program, and note under which key it was uploaded; or queue that and return the id of the import.

    Raises:
        Problem, StoreError: as `TenantPool.do`, and as `Imports.submit`.
    """
    waiting = parts.store.imports.unfinished(upload.key)
    if waiting is not None:
        return waiting
    limits = parts.settings.limits
    usual_s = 0.0 if preferences.responds_async else limits.import_seconds
    limit_s = usual_s if preferences.wait_s is None else min(preferences.wait_s, limits.import_seconds)
    if limit_s == 0.0 or upload.size_bytes > limits.import_bytes:
        return _queued(parts, upload)
    arguments = (str(upload.program), str(upload.folder), upload.request, parts.store.address)
    try:
        saved = parts.pool.do_within(limit_s, tasks.save_upload, *arguments)
    except TooSlow:
        return _queued(parts, upload)
    if not saved.faults:
        parts.store.graphs.save_upload(upload.key, saved.id, datetime.now(UTC))
    return saved


def _queued(parts: Context, upload: ProgramUpload) -> str:
    """Store all of an upload, then queue its import; return its id, or that of the same one that waits already."""
    imports = parts.store.imports
    import_id = imports.begin(upload.key, upload.request.name, upload.request, datetime.now(UTC))
    try:
        for file, path in enumerate(upload.files):
            with path.open("rb") as content:
                for number, portion in enumerate(iter(lambda: content.read(PORTION), b"")):
                    imports.append(import_id, file, number, portion)
        return imports.submit(import_id, datetime.now(UTC), queue_limits=parts.queue_limits)
    except BaseException:
        imports.abandon(import_id)
        raise
