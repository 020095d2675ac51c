"""Files of tensors, and what a program says of its sources and outputs.

An exported program states `SOURCES`, `CONSTANTS`, `OUTPUTS` and `CARRIED` in place of the empty ones here.
"""

from __future__ import annotations

import json
import math
import os
import sys
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tapestry.teg.exporters.spmd.runtime.mesh import RANK, sizes

SOURCES: dict[str, Any] = {}


CONSTANTS: dict[str, Any] = {}


OUTPUTS: dict[str, Any] = {}


CARRIED: dict[str, str] = {}


class Stored(NamedTuple):
    """A tensor of a file: its element type, its shape, and how it is opened."""

    dtype: str
    shape: tuple[int, ...]
    open: Callable[[], np.ndarray]


def read_array(path: str, name: str) -> np.ndarray:
    """Read an array of an npz file."""
    with np.load(path) as archive:
        return np.asarray(archive[name])


def read_npz(path: str) -> dict[str, Stored]:
    """List the tensors of an npz file; bfloat16 is stored as raw words."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            with archive.open(entry) as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0
                if version >= (2, 0):
                    read = np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file)
            name = entry.removesuffix(".npy")
            kind = "bfloat16" if dtype.str in ("|V2", "<V2") else dtype.name
            found[name] = Stored(kind, shape, partial(read_array, path, name))
    return found


def read_safetensors(path: str) -> dict[str, Stored]:
    """List the tensors of a safetensors file; only the parts that are read leave the disk."""
    content = np.memmap(path, np.uint8, "r")
    length = int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8 : 8 + length].tobytes())
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        kind = (
            entry["dtype"]
            .replace("BF", "bfloat")
            .replace("F", "float")
            .replace("U", "uint")
        )
        kind = (
            kind.replace("I", "int").replace("BOOL", "bool").replace("C64", "complex64")
        )
        words = np.dtype({"bfloat16": "V2"}.get(kind, kind))
        start, stop = (8 + length + n for n in entry["data_offsets"])
        needed = math.prod(entry["shape"]) * words.itemsize
        if len(content[start:stop]) != needed:
            raise ValueError(f"{name!r} is not all there")
        array = content[start:stop].view(words).reshape(entry["shape"])
        found[name] = Stored(kind, array.shape, partial(np.asarray, array))
    return found


def open_files(paths: Sequence[str], faults: list[str]) -> dict[str, Stored]:
    """List the tensors of all files; of one that stands in several, that of the last."""
    found: dict[str, Stored] = {}
    for path in dict.fromkeys(paths):
        reader = read_safetensors if path.endswith(".safetensors") else read_npz
        try:
            found.update(reader(path))
        except Exception as error:  # noqa: BLE001 (damaged files raise anything)
            faults.append(f"cannot read {path!r}: {str(error) or type(error).__name__}")
    return found


def check_outputs(path: str, faults: list[str]) -> None:
    """Find out before anything is computed whether a file can be written."""
    if Path(path).is_dir() or not os.access(Path(path).resolve().parent, os.W_OK):
        faults.append(f"cannot write {path!r}: it is a folder, or has none")


def check_sources(stored: dict[str, Stored], faults: list[str]) -> None:
    """Compare what the files hold with what the program needs; names that it does not need are a warning."""
    for name, (dtype, spec, *logical) in SOURCES.items():
        shape = logical[0] if logical else sizes(spec)
        given = stored.get(name)
        if given is None:
            faults.append(f"{name!r} is missing: {dtype} of shape {shape}")
        elif (given.dtype, tuple(given.shape)) != (dtype, shape):
            faults.append(
                f"{name!r} is {given.dtype} of shape {given.shape}, not {dtype} of shape {shape}"
            )
    extra = [name for name in stored if name not in SOURCES]
    if extra and RANK == 0:
        print(
            f"warning: the program does not read {', '.join(map(repr, extra))}",
            file=sys.stderr,
        )


def load_checked(load: Callable[[], Any], faults: list[str]) -> dict[str, Any]:
    """Read the values, unless there are faults already; damage that is found now is another one."""
    try:
        return load() if not faults else {}
    except Exception as error:  # noqa: BLE001
        faults.append(f"cannot read the values: {str(error) or type(error).__name__}")
        return {}
