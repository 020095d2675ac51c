"""Tests of imports in a worker: a child reads them, and is ended where it has to be."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest

from tapestry.service.provenance import versions
from tapestry.service.store import ImportRequest, Store, StoredImport
from tapestry.service.worker.importing import READING
from tapestry.teg.document import dumps
from tests.service.processes import eventually
from tests.service.programs import two_layers
from tests.service.worker.test_job_process import PATIENCE_S, chain, working

pytestmark = pytest.mark.slow
LONG = 3000  # blocks that take seconds to read


def queued(store: Store, content: bytes, found_by: dict[str, str] | None = None) -> str:
    """Queue the import of a document, and return its id."""
    how = ImportRequest(True, "", "", {}, (), 2**30, 100_000, versions() if found_by is None else found_by)
    import_id = store.imports.begin(hashlib.sha256(content).hexdigest(), "", how, datetime.now(UTC))
    store.imports.append(import_id, 0, 0, content[:1000])
    store.imports.append(import_id, 0, 1, content[1000:])
    return store.imports.submit(import_id, datetime.now(UTC))


def ended(store: Store, import_id: str) -> StoredImport:
    def found() -> StoredImport | None:
        stored = store.imports.get(import_id)
        return stored if stored.ended_at is not None else None

    return eventually(found, PATIENCE_S, "the import ends")


@pytest.fixture
def long_document() -> bytes:
    return dumps(chain(LONG)).encode()


def test_imports_are_read_or_refused_in_a_child(store: Store) -> None:
    with working(store):
        good, bad = queued(store, dumps(two_layers()).encode()), queued(store, b"{}" * 600)
        elsewhere = queued(store, dumps(two_layers("other")).encode(), {"tapestry": "0"})
        found = ended(store, good)
        assert found.status == "succeeded" and found.graph_id is not None
        assert store.graphs.load(found.graph_id) == two_layers()
        assert store.graphs.uploaded(found.hash) == found.graph_id
        refused = ended(store, bad)
        assert (refused.status, (refused.problem or {})["code"]) == ("failed", "invalid_graph")
        other = ended(store, elsewhere)
        assert other.status == "succeeded" and store.graphs.uploaded(other.hash) is None


def test_an_import_is_cancelled_while_it_is_read(store: Store, long_document: bytes) -> None:
    with working(store):
        import_id = queued(store, long_document)
        eventually(lambda: store.imports.get(import_id).status == "running", PATIENCE_S, "it is read")
        assert store.imports.request_cancel(import_id, datetime.now(UTC)).cancel_requested
        found = ended(store, import_id)
    assert (found.status, found.graph_id) == ("cancelled", None)
    assert list(store.imports.portions(import_id, 0)) == []


def test_an_import_that_takes_too_long_fails_and_says_so(store: Store, long_document: bytes) -> None:
    with working(store, phases_s={READING: 0.2}):
        found = ended(store, queued(store, long_document))
    assert found.status == "failed" and found.problem is not None
    assert found.problem["code"] == "too_slow"
    assert found.problem["detail"].startswith("reading took more than is allowed")
    assert found.problem["detail"].endswith("submit a smaller program")
