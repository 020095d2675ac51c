"""Tasks of the pool that compare runs. Results are gzipped JSON."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence

from tapestry.service.api.tasks import GZIP_LEVEL, store_at
from tapestry.service.run_comparison import comparison_document
from tapestry.service.store import StoreAddress


def render_comparison(run_ids: Sequence[str], address: StoreAddress) -> bytes:
    """Compare stored runs."""
    document = comparison_document(store_at(address), run_ids)
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode(), GZIP_LEVEL, mtime=0)
