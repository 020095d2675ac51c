"""A program as a script: its options, the files of its sources and outputs, and its steps.

An exported program states `SOURCES`, `CONSTANTS`, `OUTPUTS` and `CARRIED` in place of the empty ones here, of a program
with stages those of one of them, but `OUTPUTS` and `ALL_SOURCES` of all; `ON_HOST` names the sources that begin in the
memory of the host. `part` and `whole` are those of its library.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from tapestry.teg.exporters.spmd.runtime.mesh import FIRST, RANK, Dims, sizes

SOURCES: dict[str, Any] = {}
CONSTANTS: dict[str, Any] = {}
OUTPUTS: dict[str, Any] = {}
CARRIED: dict[str, str] = {}
ALL_SOURCES: dict[str, Any] = {}
ON_HOST: tuple[str, ...] = ()


def part(value: np.ndarray, dims: Dims, dtype: str, is_on_host: bool = False) -> Any:
    """Return what devices, or their hosts, hold of an array."""
    return value


def whole(value: Any, dims: Dims) -> np.ndarray:
    """Return the array of which devices hold parts."""
    return np.asarray(value)


def command_line(required: bool = True) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    add = parser.add_argument
    add("--inputs", required=required, help="npz or safetensors file with the inputs")
    add("--weights", help="a file with the rest of the sources; any split is fine")
    add("--outputs", required=required, help="npz file to write")
    add("--steps", type=int, default=1, help="steps to run, carried state fed back")
    return parser


def open_file(path: str) -> Any:
    """Return the tensors of a file, read when asked for; bfloat16 as raw words."""
    if not path.endswith(".safetensors"):
        return np.load(path)
    content = np.memmap(path, np.uint8, "r")
    start = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8:start].tobytes())
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        kind, raw = entry["dtype"], content[start:][slice(*entry["data_offsets"])]
        words = "V1" if kind[:3] == "F8_" else {"BF16": "V2", "BOOL": "?"}.get(kind)
        words = words or f"{kind[0].lower()}{int(kind[1:]) // 8}"
        found[name] = np.ndarray(entry["shape"], words, raw)
    return found


def load(options: argparse.Namespace, *known: str) -> tuple[dict[str, Any], list[str]]:
    """Read the sources, make the constants; return also all that is wrong."""
    files: dict[str, Any] = {}
    found, faults, output = {}, [*known], Path(options.outputs)
    if options.steps < 1:
        faults.append("--steps is the number of steps to run: at least one")
    if output.is_dir() or not os.access(output.resolve().parent, os.W_OK):
        faults.append(f"cannot write {str(output)!r}: it is a folder, or has none")
    for path in dict.fromkeys(p for p in (options.inputs, options.weights) if p):
        try:
            tensors = open_file(path)
            files.update(dict.fromkeys(tensors, tensors))
        except Exception as error:  # noqa: BLE001 (damaged files raise anything)
            faults.append(f"cannot read {path!r}: {error!r}")
    for name, (dtype, dims, *logical) in SOURCES.items():
        wanted = f"{dtype} of shape {(logical or [sizes(dims)])[0]}"
        if name not in files:
            faults.append(f"{name!r} is missing: {wanted}")
            continue
        try:
            value = files.pop(name)[name]
            kind = "bfloat16" if value.dtype == "V2" else value.dtype.name
            given = f"{kind} of shape {value.shape}"
            if given != wanted:
                faults.append(f"{name!r} is {given}, not {wanted}")
            elif not faults:
                value = value.reshape(sizes(dims))
                found[name] = part(value, dims, dtype, name in ON_HOST)
        except Exception as error:  # noqa: BLE001
            faults.append(f"cannot read {name!r}: {error!r}")
    for name, (dtype, dims, values) in CONSTANTS.items() if not faults else ():
        found[name] = part(np.array(values).reshape(sizes(dims)), dims, dtype)
    for name in ALL_SOURCES:
        files.pop(name, None)
    if files and FIRST + RANK == 0:
        print("warning: the program does not read", *map(repr, files), file=sys.stderr)
    return found, faults


def run_steps(step: Any, w: dict[str, Any], count: int) -> Any:
    """Run steps; each takes what it uses up out of `w`, and carries state to the next."""
    shapes = {name: w[name].shape for name in CARRIED.values()}
    for _ in range(count - 1):
        kept = {name: x for name, x in w.items() if name not in CARRIED.values()}
        outputs = step(w)
        w = kept | {s: outputs[k].reshape(shapes[s]) for k, s in CARRIED.items()}
        del kept, outputs
    return step(w)


def save(outputs: dict[str, Any], path: str) -> None:
    """Write whole outputs by name; the file appears when it is complete."""
    found = {n: whole(outputs.get(n), *entry[:1]) for n, entry in OUTPUTS.items()}
    unfinished = Path(f"{path}.{os.getpid()}.partial")
    if FIRST + RANK > 0:
        return
    try:
        with zipfile.ZipFile(unfinished, "w") as archive:
            for name, value in found.items():
                array = value.reshape(*OUTPUTS[name][1:] or [value.shape])
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
