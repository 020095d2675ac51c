"""Tests of files of tensors: every format comes back, damage is named, and nothing is half-written."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tapestry.teg.dtypes import NAMES, numpy_dtype
from tapestry.teg.tensor_files import TensorFileError, read_tensors, typed, write_tensors

PAIR = {"h.0/weight": np.arange(6, dtype=np.float32).reshape(2, 3), "file": np.array(3, dtype=np.int64)}


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
def test_named_tensors_come_back_as_they_were_written(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"pair{ending}"
    write_tensors(path, PAIR)
    found = read_tensors(path)
    assert found.keys() == PAIR.keys()
    for name, array in PAIR.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)
        assert not found[name].flags.writeable
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_numpy_reads_what_is_written_and_the_other_way_round(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a.npz", PAIR)
    with np.load(tmp_path / "a.npz") as found:
        np.testing.assert_array_equal(found["h.0/weight"], PAIR["h.0/weight"])
    fortran = np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3))
    np.savez_compressed(tmp_path / "b.npz", x=fortran)
    (x,) = read_tensors(tmp_path / "b.npz").values()
    assert x.dtype == np.int32 and x.dtype.isnative
    np.testing.assert_array_equal(x, fortran)


def test_the_tensor_of_a_npy_file_is_called_like_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "tokens.npy", np.arange(4))
    found = read_tensors(tmp_path / "tokens.npy")
    np.testing.assert_array_equal(found["tokens"], np.arange(4))
    write_tensors(tmp_path / "again.npy", {"any": np.arange(4)})
    assert (tmp_path / "again.npy").read_bytes() == (tmp_path / "tokens.npy").read_bytes()


@pytest.mark.parametrize("dtype", NAMES)
def test_a_npz_file_keeps_every_type_though_not_its_name(tmp_path: Path, dtype: str) -> None:
    array = np.ones((2, 1)).astype(numpy_dtype(dtype))
    write_tensors(tmp_path / "x.npz", {"x": array})
    found = typed(read_tensors(tmp_path / "x.npz")["x"], dtype)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_plain_bytes_are_no_elements_of_another_size() -> None:
    plain = np.zeros(3, "V2")
    assert typed(plain, "float32") is plain and typed(np.zeros(3), "float32").dtype == np.float64


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def objects(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), x=np.array([{}], dtype=object))


def texts(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), x=np.array(["a"]))


def giant(path: Path) -> None:
    """Write a member whose header states far more elements than follow."""
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": (2**40,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", member.getvalue())


def foreign(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../x.txt", "")


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("x.npz", damaged, "'x.npz' cannot be read: File is not a zip file; is it a whole .npz file?"),
        ("x.npy", damaged, "is it a whole .npy file?"),
        ("x.safetensors", damaged, "it ends in the middle of tensor 'x'"),
        ("x.npz", objects, "'x.npy' is damaged: it holds Python objects, which are never read"),
        ("x.npz", texts, "'x' has elements of type <U1, which are no numbers"),
        ("x.npz", giant, r"take 4,398,046,511,104 bytes, not 0"),
        ("x.npz", foreign, "'../x.txt' is no .npy file"),
    ],
)
def test_a_damaged_file_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, damage: object, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tensors(name, {"x": np.arange(4, dtype=np.float32)})
    assert callable(damage)
    damage(Path(name))
    with pytest.raises(TensorFileError, match=message) as refused:
        read_tensors(name)
    assert "\n" not in str(refused.value)


def test_a_file_of_another_kind_or_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(b"")
    with pytest.raises(TensorFileError, match=r"expected a file ending in \.npz, \.npy, \.safetensors"):
        read_tensors(tmp_path / "x.pt")
    with pytest.raises(TensorFileError, match="there is no file"):
        read_tensors(tmp_path / "y.npz")


def test_a_compressed_file_beyond_the_limit_is_refused_unread(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros(10**6))
    assert (tmp_path / "zeros.npz").stat().st_size < 20_000
    with pytest.raises(TensorFileError, match=r"unpacks to 8,000,128 bytes; at most 1,000,000"):
        read_tensors(tmp_path / "zeros.npz", 10**6)
    write_tensors(tmp_path / "x.safetensors", {"x": np.zeros(100)})
    with pytest.raises(TensorFileError, match="holds 800 bytes; at most 799"):
        read_tensors(tmp_path / "x.safetensors", 799)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, PAIR)
    before = path.read_bytes()
    with pytest.raises(TensorFileError, match=r"cannot write .*'x' of type complex128.*; take .npz"):
        write_tensors(path, {"x": np.zeros(2, np.complex128)})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    with pytest.raises(TensorFileError, match="there is no such folder"):
        write_tensors(tmp_path / "none" / "x.npz", PAIR)
    with pytest.raises(TensorFileError, match="holds one tensor, not 2"):
        write_tensors(tmp_path / "x.npy", PAIR)
