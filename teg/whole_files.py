"""Files that appear whole or not at all."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(target: Path) -> Iterator[IO[bytes]]:
    """Open a file to write, gzipped if its name ends in `.gz`; it appears when the block ends without an error."""
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            if target.suffix == ".gz":
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                    yield packed  # type: ignore[misc]
            else:
                yield file
        os.replace(partial, target)
    except BaseException:
        os.unlink(partial)
        raise
