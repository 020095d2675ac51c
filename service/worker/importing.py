"""Imports, done by a worker: the content of an upload is read from the store as the API would have read it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tapestry.service.archives import place_in
from tapestry.service.importing import save_upload
from tapestry.service.provenance import versions
from tapestry.service.store import Store, StoredImport, TenantStore
from tapestry.service.worker.heartbeat import ClaimedJob

READING = "reading"


def do_import(store: Store, held: ClaimedJob, on_phase: Callable[[str], None]) -> None:
    """Read the program that the job names, in this process, and store it, or the reasons why there is none.

    An attempt that ends in between leaves nothing but perhaps the program, which is stored once by its content.
    """
    mine = store.of(held.job.tenant)
    found = mine.imports.get(held.job.subject)
    on_phase(READING)
    with (
        tempfile.TemporaryDirectory(prefix="tapestry-import-") as place,
        tempfile.TemporaryDirectory(prefix="tapestry-import-") as beside,
    ):
        program, folder = Path(place, f"program{found.request.suffix}"), Path(beside)
        _write(mine, found, program, folder)
        saved = save_upload(program, folder, found.request, mine)
    now = datetime.now(UTC)
    if saved.refusal is not None:
        store.jobs.end_import(held.job, now, "failed", problem=saved.refusal.to_json())
        return
    if dict(found.request.versions) == versions():  # the hash of the upload is made for these
        mine.graphs.save_upload(found.hash, saved.id, now)
    store.jobs.end_import(held.job, now, "finished", graph_id=saved.id)


def _write(store: TenantStore, found: StoredImport, program: Path, folder: Path) -> None:
    """Write the content of an import to a private file, and its external data to a private folder."""
    for number, path in enumerate((program, *(place_in(folder, name) for name in found.request.data))):
        with path.open("wb") as target:
            for portion in store.imports.portions(found.id, number):
                target.write(portion)
