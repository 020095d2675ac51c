"""Tests of files that appear whole or not at all."""

import gzip
from pathlib import Path

import pytest

from tapestry.teg.whole_files import whole_file


def test_a_file_appears_at_the_end(tmp_path: Path) -> None:
    for name, read in (("a.json", Path.read_bytes), ("a.json.gz", lambda p: gzip.decompress(p.read_bytes()))):
        with whole_file(tmp_path / name) as file:
            file.write(b"one")
            assert not (tmp_path / name).exists()
            file.write(b"two")
        assert read(tmp_path / name) == b"onetwo"


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("before")
    with pytest.raises(RuntimeError), whole_file(tmp_path / "a.json") as file:
        file.write(b"after")
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() == "before"
