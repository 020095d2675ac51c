"""Documents as the task pool returns them: gzipped JSON, or why there is none."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

GZIP_LEVEL = 5


class GzippedDocument(NamedTuple):
    """A document as gzipped JSON, or why there is none."""

    content: bytes = b""
    refusal: str = ""


def gzipped_json(document: Mapping[str, Any]) -> bytes:
    """Encode a document as gzipped JSON, the same bytes for the same document.

    Raises:
        ValueError: a number in it is infinite, or none.
    """
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode(), GZIP_LEVEL, mtime=0)
