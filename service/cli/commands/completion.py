"""`tapestry completion`: print the script by which a shell completes the command line."""

from __future__ import annotations

from argparse import Namespace

from tapestry.costmodel.objectives import NAMES
from tapestry.hardware import mesh_names
from tapestry.service.cli.completion import WRITERS, levels
from tapestry.service.cli.errors import OK
from tapestry.service.cli.parser import build_parser


def run(arguments: Namespace) -> int:
    """Print the script; the names of meshes and objectives in it are those of the catalog now."""
    meshes = mesh_names()
    names = {"mesh": meshes, "source": meshes, "objectives": NAMES}
    print(WRITERS[arguments.shell](list(levels(build_parser(), names))), end="")
    return OK
