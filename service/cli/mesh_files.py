"""Mesh files that commands write: where they may go, and how they are written."""

from __future__ import annotations

import os
from pathlib import Path

from tapestry.hardware import Mesh
from tapestry.hardware.mesh_text import mesh_text
from tapestry.service.cli.errors import CommandError


def check_new(file: str, is_forced: bool) -> None:
    """Refuse a name by which no mesh is read, a file that exists unless it may be replaced, a folder that is closed.

    Before anything is measured: what could not be written would be lost.
    """
    if Path(file).suffix != ".toml":
        raise CommandError(f"{file!r}: name a file ending in .toml, by which meshes are read")
    if Path(file).exists() and not is_forced:
        raise CommandError(f"{file!r} exists already; name another file, or say --force to replace it")
    if not os.access(Path(file).resolve().parent, os.W_OK):
        raise CommandError(f"cannot write {file!r}: there is no such folder, or it may not be written")


def write_mesh(mesh: Mesh, file: str, with_device: bool) -> None:
    """Write a mesh file, with the device's figures or its name."""
    try:
        Path(file).write_text(mesh_text(mesh, with_device), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {file!r}: {error.strerror or error}") from error
