"""Values of inputs and outputs in files, for commands that compute."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tapestry.service.cli.errors import CommandError
from tapestry.service.cli.searching import refuse_one_file
from tapestry.teg.graph import Graph
from tapestry.teg.interface import unpack_outputs, unread_names
from tapestry.teg.tensor_files import ENDINGS, TensorFileError, read_tensors, write_tensors


def read_values(arguments: Namespace) -> dict[str, np.ndarray] | None:
    """Read the values in the files of --inputs and --weights, which may be one; None without either.

    Raises:
        CommandError: a file cannot be read, both give the same tensor, or nothing is to be computed.
    """
    paths = list(dict.fromkeys(p for p in (arguments.inputs, arguments.weights) if p is not None))
    if arguments.dry and (paths or arguments.outputs):
        raise CommandError("--dry computes no values; leave --inputs, --weights and --outputs out")
    if arguments.outputs:
        _check_outputs(arguments)
    values: dict[str, np.ndarray] = {}
    for path in paths:
        try:
            found = read_tensors(path)
        except TensorFileError as error:
            raise CommandError(str(error)) from error
        twice = [repr(name) for name in found if name in values]
        if twice:
            raise CommandError(
                f"--inputs and --weights both give {', '.join(twice[:5])}; give each tensor in one of them"
            )
        values |= found
    return values if paths else None


def warn_of_unread(graph: Graph, values: Mapping[str, np.ndarray]) -> None:
    """Print on standard error the names in files that no input of the program has."""
    for line in unread_names(graph, values).values():
        print(f"tapestry: not read: {line}", file=sys.stderr)


def write_outputs(path: str, graph: Graph, outputs: Mapping[str, np.ndarray]) -> None:
    """Write the values of sinks, by site, in the shapes that the program states.

    Raises:
        CommandError: the file cannot be written.
    """
    try:
        write_tensors(path, unpack_outputs(graph, outputs))
    except TensorFileError as error:
        raise CommandError(str(error)) from error


def _check_outputs(arguments: Namespace) -> None:
    """Refuse a file that could not be written, before anything is computed."""
    path = arguments.outputs
    if not path.lower().endswith(ENDINGS):
        raise CommandError(f"--outputs {path!r}: expected a file ending in {', '.join(ENDINGS)}")
    if Path(path).is_dir() or not Path(path).resolve().parent.is_dir():
        raise CommandError(f"--outputs {path!r}: it is a folder, or its folder does not exist")
    for option in ("inputs", "weights"):
        if (given := getattr(arguments, option)) is not None:
            refuse_one_file({f"--{option}": given, "--outputs": path})
