"""Files of named tensors: `.npz`, `.npy` and `.safetensors`.

Nothing of a file is ever run or unpickled. Tensors of `.npy` and `.safetensors` files are mapped, so what is not used
is not read. Writing gives the whole file or none.

`.npz` has no names for the short floats and integers of `teg.dtypes`: there they are plain bytes, and come back so.
`typed` makes them elements again. `.safetensors` names all but `complex128` and integers and floats below a byte.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import IO

import numpy as np

from tapestry.teg.dtypes import EXTENDED, NAMES, numpy_dtype
from tapestry.teg.safetensors import DamagedFileError, pack, unpack
from tapestry.teg.whole_files import whole_file

# The endings of files whose content begins so; anything else is taken for `.safetensors`.
_PREFIXES = {b"\x93NUMPY": ".npy", b"PK": ".npz"}
ENDINGS = (".npz", ".npy", ".safetensors")
# What numpy and zipfile raise for a damaged file, an encrypted one, or one compressed in a way they do not know.
_BROKEN = (ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, struct.error, MemoryError)


class TensorFileError(ValueError):
    """Error raised for a file of tensors that cannot be read or written; the message is one line for the user."""


def read_tensors(
    path: str | PathLike[str], most_bytes: int | None = None, shown: str = ""
) -> dict[str, np.ndarray]:
    """Read the tensors of a file by name, read-only; that of a `.npy` file is called like the file.

    `most_bytes` bounds their size in memory. `shown` is what messages call the file; by default its path.

    Raises:
        TensorFileError: no such file, another format, damaged, too large, or elements that are no numbers.
    """
    file, shown = Path(path), shown or repr(fspath(path))
    if not file.is_file():
        raise TensorFileError(f"there is no file {shown}")
    ending = _ending(file.name, shown)
    try:
        if ending == ".safetensors":
            tensors = dict(unpack(_mapped(file)))
        elif ending == ".npy":
            tensors = {file.name[: -len(ending)]: np.lib.format.open_memmap(file, mode="r")}
        else:
            tensors = dict(_members(file, most_bytes))
    except OSError as error:
        raise TensorFileError(f"cannot read {shown}: {error.strerror or error}") from error
    except _BROKEN as error:
        hint = "" if isinstance(error, DamagedFileError) else f"; is it a whole {ending} file?"
        raise TensorFileError(f"{shown} cannot be read: {' '.join(str(error).split())}{hint}") from None
    return _checked(tensors, shown, most_bytes)


def write_tensors(path: str | PathLike[str], tensors: Mapping[str, np.ndarray]) -> None:
    """Write tensors to a file in the format of its ending; the file appears whole or not at all.

    Raises:
        TensorFileError: the file cannot be written, or its format cannot hold these tensors.
    """
    shown = repr(fspath(path))
    ending = _ending(Path(path).name, shown)
    if not Path(path).resolve().parent.is_dir():
        raise TensorFileError(f"cannot write {shown}: there is no such folder")
    try:
        with whole_file(Path(path)) as file:
            dump_tensors(file, ending, tensors)
    except TensorFileError as error:
        raise TensorFileError(f"cannot write {shown}: {error}") from None
    except OSError as error:
        raise TensorFileError(f"cannot write {shown}: {error.strerror or error}") from error


def dump_tensors(file: IO[bytes], ending: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Write tensors to an open file in the format of an ending.

    Raises:
        TensorFileError: the format cannot hold these tensors.
    """
    if ending == ".npz":
        _dump_npz(file, tensors)
    elif ending == ".npy":
        if len(tensors) != 1:
            raise TensorFileError(
                f"a .npy file holds one tensor, not {len(tensors)}; take .npz or .safetensors"
            )
        (array,) = tensors.values()
        np.lib.format.write_array(file, _plain(array), allow_pickle=False)
    else:
        try:
            for portion in pack(tensors):
                file.write(portion)
        except DamagedFileError as error:
            raise TensorFileError(f"{error}; take .npz") from None


def ending_of(content: bytes) -> str:
    """Return the ending that a file has whose content begins so."""
    return next((ending for start, ending in _PREFIXES.items() if content.startswith(start)), ENDINGS[-1])


def typed(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return an array whose elements `.npz` keeps as plain bytes with the element type it was written with."""
    wanted = numpy_dtype(dtype)
    is_plain = array.dtype.kind == "V" and array.dtype.name.startswith("void") and array.dtype.names is None
    return array.view(wanted) if is_plain and array.dtype.itemsize == wanted.itemsize else array


def _ending(name: str, shown: str) -> str:
    found = next((ending for ending in ENDINGS if name.lower().endswith(ending)), None)
    if found is None:
        raise TensorFileError(f"{shown}: expected a file ending in {', '.join(ENDINGS)}")
    return found


def _mapped(file: Path) -> np.ndarray:
    return np.memmap(file, np.uint8, "r") if file.stat().st_size else np.zeros(0, np.uint8)


def _members(file: Path, most_bytes: int | None) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the arrays of a `.npz` file; what its directory states is checked before anything is unpacked."""
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        if most_bytes is not None and (size := sum(info.file_size for info in infos)) > most_bytes:
            raise DamagedFileError(f"it unpacks to {size:,} bytes; at most {most_bytes:,} are accepted here")
        for info in infos:
            if not info.filename.endswith(".npy"):
                raise ValueError(f"its member {info.filename[:80]!r} is no .npy file")
            try:
                array = _array(archive.read(info))
            except ValueError as error:
                raise DamagedFileError(f"its member {info.filename[:80]!r} is damaged: {error}") from None
            yield info.filename.removesuffix(".npy"), array


def _array(content: bytes) -> np.ndarray:
    """Convert the content of a `.npy` file to an array, a view of it."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of its format is not known")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never read, as they could run code")
    start, size = file.tell(), math.prod(shape) * dtype.itemsize
    if len(content) - start != size:
        raise ValueError(f"shape {shape} and type {dtype} take {size:,} bytes, not {len(content) - start:,}")
    flat: np.ndarray = np.frombuffer(content, dtype, offset=start)
    return flat.reshape(shape, order="F" if is_fortran else "C")


def _checked(tensors: Mapping[str, np.ndarray], shown: str, most_bytes: int | None) -> dict[str, np.ndarray]:
    size = sum(array.nbytes for array in tensors.values())
    if most_bytes is not None and size > most_bytes:
        raise TensorFileError(f"{shown} holds {size:,} bytes; at most {most_bytes:,} are accepted here")
    known, faults = {}, []
    for name, array in tensors.items():
        native = array.view(np.ndarray)
        if not array.dtype.isnative:
            native = array.astype(array.dtype.newbyteorder("="))
        is_plain = native.dtype.kind == "V" and native.dtype.names is None
        if native.dtype.name not in NAMES and not is_plain:
            faults.append(f"{name[:80]!r} has elements of type {array.dtype}, which are no numbers")
        native.flags.writeable = False
        known[name] = native
    if faults:
        raise TensorFileError(f"{shown}: {'; '.join(faults[:5])}")
    return known


def _dump_npz(file: IO[bytes], tensors: Mapping[str, np.ndarray]) -> None:
    """Write a `.npz` file without compression, equal for equal tensors: its members have no dates."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in tensors.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _plain(array), allow_pickle=False)


def _plain(array: np.ndarray) -> np.ndarray:
    """Return an array of a type that numpy itself lacks as plain bytes: what numpy writes of some it cannot read."""
    return array.view(f"V{array.dtype.itemsize}") if array.dtype.name in EXTENDED else array
