"""Reader of `.pt2` archives: a zip of JSON and raw bytes. Nothing in it is executed, and nothing pickled is read."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tapestry.teg.content_hash import members_of
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.torch.listing import Extent, Listing, dtype_by_code
from tapestry.teg.importers.torch.serialized import parse_json, read_serialized

# A graph of ten thousand nodes takes about 30 MB of JSON.
LARGEST_JSON_BYTES = 2 * 1024**3


def read_archive(path: Path, name: str, dims: Mapping[str, int] | None = None) -> Listing:
    """Read the program in a `.pt2` file, with its weights and constants; `dims` as in `read_serialized`.

    Raises:
        ImportFailure: it is no such archive, is damaged, holds several models, or its weights are pickled.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _Archive(archive, name).listing(dims)
    except (zipfile.BadZipFile, EOFError, RuntimeError, zlib.error, IndexError) as error:
        # Python's own module fails with an IndexError for a file without a name.
        raise ImportFailure(f"file {str(path)!r} is not a .pt2 archive, or it is damaged: {error}") from None
    except OSError as error:
        raise ImportFailure(f"cannot read {str(path)!r}: {error.strerror or error}") from None


class _Archive:
    """Members of the archive by their names below its one root folder."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self.archive, self.name = archive, name
        self.members = members_of(archive)

    def listing(self, dims: Mapping[str, int] | None) -> Listing:
        models = [m for m in self.members if m.startswith("models/") and m.endswith(".json")]
        if not models:
            hint = "save it with torch.export.save of PyTorch 2.8 or later"
            raise ImportFailure(f"{self.name} holds no exported program ('models/*.json'); {hint}")
        if len(models) > 1:
            raise ImportFailure(
                f"{self.name} holds {len(models)} models ({', '.join(sorted(models))}), not one"
            )
        if "byteorder" in self.members and self._bytes("byteorder") != b"little":
            raise ImportFailure(f"{self.name} was written on a big-endian machine, which is unsupported")
        document = parse_json(self._bytes(models[0]), f"{self.name}: {models[0]}")
        model = models[0].removeprefix("models/").removesuffix(".json")
        weights = self._config(f"data/weights/{model}_weights_config.json")
        constants = self._config(f"data/constants/{model}_constants_config.json")
        data = {key: self._tensor(key, entry, "data/weights") for key, entry in weights.items()}
        data |= {key: self._tensor(key, entry, "data/constants") for key, entry in constants.items()}
        extents = {key: _extent(entry) for key, entry in weights.items()}
        return read_serialized(document, self.name, data, dims, extents)

    def _bytes(self, member: str) -> bytes:
        """Read a member; a new kind of member belongs to `READ_MEMBERS` too."""
        info = self.members[member]
        if info.file_size > LARGEST_JSON_BYTES and member.endswith(".json"):
            raise ImportFailure(
                f"{self.name}: {member} of {info.file_size} bytes is larger than a program can be"
            )
        return self.archive.read(info)

    def _config(self, member: str) -> Mapping[str, Mapping[str, Any]]:
        """Read what a configuration says of stored tensors, by their names in the program."""
        if member not in self.members:
            return {}
        document = parse_json(self._bytes(member), f"{self.name}: {member}")
        found = document.get("config", {}) if isinstance(document, Mapping) else None
        if not isinstance(found, Mapping) or not all(isinstance(entry, Mapping) for entry in found.values()):
            raise ImportFailure(f"{self.name}: {member} is no object with a 'config' of tensors")
        return found

    def _tensor(self, key: str, entry: Mapping[str, Any], folder: str) -> np.ndarray:
        member = f"{folder}/{entry.get('path_name')}"
        if entry.get("use_pickle") or entry.get("tensor_meta") is None:
            raise ImportFailure(
                f"{self.name}: {key!r} is stored pickled, and pickled data is never read: it could run code; "
                "export plain dense tensors"
            )
        if member not in self.members:
            raise ImportFailure(
                f"{self.name}: the data of {key!r} ({member}) is missing; the file may be truncated"
            )
        meta = entry["tensor_meta"]
        dtype = numpy_dtype(dtype_by_code(meta["dtype"], f"{self.name}: {key!r}"))
        shape, strides, start = _layout(entry)
        return self._array(key, np.frombuffer(self._bytes(member), np.uint8), dtype, shape, strides, start)

    def _array(
        self,
        key: str,
        content: np.ndarray,
        dtype: np.dtype[Any],
        shape: list[int],
        strides: list[int],
        start: int,
    ) -> np.ndarray:
        """Return the elements that shape and strides specify, none of them outside the stored bytes."""
        reach = _reach(shape, strides, start)
        if min([*strides, start, *shape], default=0) < 0 or reach * dtype.itemsize > content.size:
            raise ImportFailure(
                f"{self.name}: {key!r} of shape {shape} needs {reach * dtype.itemsize} bytes, "
                f"{content.size} are stored"
            )
        if 0 in shape:
            return np.zeros(shape, dtype)
        flat = content[: content.size // dtype.itemsize * dtype.itemsize].view(dtype)[start:]
        steps = [s * dtype.itemsize for s in strides]
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat, shape, steps, writeable=False))


def _layout(entry: Mapping[str, Any]) -> tuple[list[int], list[int], int]:
    """Return the shape, the strides and the first element of a stored tensor."""
    meta = entry["tensor_meta"]
    shape, strides = ([int(s["as_int"]) for s in meta[what]] for what in ("sizes", "strides"))
    return shape, strides, int(meta["storage_offset"]["as_int"])


def _reach(shape: list[int], strides: list[int], start: int) -> int:
    """Return the number of stored elements up to a tensor's last one."""
    return start + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1 if 0 not in shape else 0


def _extent(entry: Mapping[str, Any]) -> Extent:
    shape, strides, start = _layout(entry)
    return Extent(str(entry["path_name"]), start, _reach(shape, strides, start), tuple(strides))
