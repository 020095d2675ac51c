"""Tests of the hashes of programs' files: what is not read does not count, and archives do no harm."""

from __future__ import annotations

import hashlib
import io
import zipfile

import pytest

from tapestry.teg.content_hash import content_hash

MEMBERS = {"models/model.json": b"{}", "data/weights/weight_0": b"abcd", "data/sample_inputs/model.pt": b"1"}


def packed(members: dict[str, bytes], root: str = "model", method: int = zipfile.ZIP_STORED) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{root}/{name}", content)
    file.seek(0)
    return file


def test_a_program_that_is_exported_again_has_the_same_hash() -> None:
    once = content_hash(packed(MEMBERS), ".pt2")
    again = {"data/sample_inputs/model.pt": b"2", ".data/serialization_id": b"77"}
    assert content_hash(packed({**MEMBERS, **again}, "other"), ".pt2") == once
    for changed in (
        {"data/weights/weight_0": b"abce"},
        {"data/weights/weight_1": b""},
        {"byteorder": b"big"},
    ):
        assert content_hash(packed({**MEMBERS, **changed}), ".pt2") != once
    moved = {"models/model.json": b"{}a", "data/weights/weight_0": b"bcd"}
    assert content_hash(packed({**MEMBERS, **moved}), ".pt2") != once


def overlapping() -> io.BytesIO:
    """Build an archive of 100 kB in which a hundred members are the same bytes."""
    file = packed({f"data/weights/weight_{k:03}": bytes(100_000 if k == 0 else 0) for k in range(100)})
    with zipfile.ZipFile(file) as archive:
        archive.mode, archive._didModify = "a", True  # type: ignore[attr-defined]  # the directory is written again
        first, *others = archive.infolist()
        for other in others:
            other.header_offset, other.CRC = first.header_offset, first.CRC
            other.file_size = other.compress_size = first.file_size
    file.seek(0)
    return file


@pytest.mark.parametrize(
    ("file", "suffix"),
    [
        (io.BytesIO(b"no archive"), ".pt2"),
        (packed(MEMBERS, method=zipfile.ZIP_DEFLATED), ".pt2"),
        (overlapping(), ".pt2"),
        (packed(MEMBERS), ".onnx"),
    ],
)
def test_other_files_have_the_hash_of_all_their_bytes(file: io.BytesIO, suffix: str) -> None:
    assert content_hash(file, suffix) == hashlib.sha256(file.getvalue()).hexdigest()
    assert file.tell() == 0
