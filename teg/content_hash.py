"""Hashes of programs' files by what is read of them: files with equal hashes hold equal programs."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from io import SEEK_END, BufferedIOBase
from typing import BinaryIO, cast

PORTION = 2**20
# The members of a .pt2 archive that are read, below its root. Others differ each time that a program is exported.
READ_MEMBERS = ("models/", "data/weights/", "data/constants/", "byteorder")


def members_of(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the members of a `.pt2` archive by their names below its one root folder."""
    return {i.filename.partition("/")[2]: i for i in archive.infolist() if not i.is_dir()}


def content_hash(file: BinaryIO, suffix: str = "") -> str:
    """Return the SHA-256, in hexadecimal digits, of an open file, which is at its start before and after.

    Of a PyTorch archive (`suffix` is `.pt2`) it is that of the members that are read, with their names, in the order of
    these: a program that is exported again has the same hash.
    """
    try:
        if suffix == ".pt2":
            return _archive_hash(file)
    except (zipfile.BadZipFile, EOFError, RuntimeError, ValueError, zlib.error, OSError):
        pass  # no archive: reading it will tell
    finally:
        file.seek(0)
    digest = hashlib.file_digest(cast(BufferedIOBase, file), "sha256").hexdigest()
    file.seek(0)
    return digest


def _archive_hash(file: BinaryIO) -> str:
    found = hashlib.sha256()
    with zipfile.ZipFile(file) as archive:
        members = {n: i for n, i in members_of(archive).items() if n.startswith(READ_MEMBERS)}
        if any(info.compress_type != zipfile.ZIP_STORED for info in members.values()):
            raise ValueError("torch.export stores members as they are; others may be of any size")
        if sum(info.file_size for info in members.values()) > file.seek(0, SEEK_END):
            raise ValueError("members overlap")
        for name, info in sorted(members.items()):
            found.update(f"{name}\n{info.file_size}\n".encode())
            with archive.open(info) as member:
                while portion := member.read(PORTION):
                    found.update(portion)
    return found.hexdigest()
