"""Tests of ONNX programs with their data in other files: sent as parts or as an archive, and archives that do harm."""

from __future__ import annotations

import errno
import io
import stat
import zipfile
from pathlib import Path

import httpx
import numpy as np
import onnx
import pytest

from tapestry.service.archives import place_in, unpack
from tapestry.service.settings import Limits
from tapestry.teg.importers import ImportFailure
from tests.service.api.conftest import PATIENCE_S, Serve, Service, complaint
from tests.service.api.test_graphs import model, upload


def divided(folder: Path, location: str = "weights.bin") -> dict[str, bytes]:
    """Save a model with its data in another file; return both by name."""
    onnx.save(model(), folder / "model.onnx", save_as_external_data=True, location=location, size_threshold=0)
    return {name: (folder / name).read_bytes() for name in ("model.onnx", location)}


def archive(files: dict[str, bytes], folder: str = "") -> bytes:
    """Pack files into an archive, of the same bytes at any time."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(zipfile.ZipInfo(folder + name), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def send(service: Service, program: bytes, *data: tuple[str, bytes]) -> httpx.Response:
    parts = [("file", ("model.onnx", program)), *(("data", part) for part in data)]
    return service.http.post("/v1/graphs/import", files=parts)


def detail(answer: httpx.Response, code: str = "invalid_graph") -> str:
    return str(complaint(answer, 422, code)["errors"][0]["detail"])


def test_parts_and_archives_are_the_program_with_its_data_inside(service: Service, tmp_path: Path) -> None:
    files = divided(tmp_path)
    whole = upload(service, model().SerializeToString(), "model.onnx").json()
    program, data = files["model.onnx"], files["weights.bin"]
    assert send(service, program, ("weights.bin", data)).json()["id"] == whole["id"]
    assert upload(service, archive(files), "model.zip").json()["id"] == whole["id"]
    inner = upload(service, archive(files, "export/onnx/"), "model.zip")
    assert inner.json()["id"] == whole["id"]
    document = service.http.get(whole["links"]["document"]).json()
    assert list(document["data"]) == ["w"]


def test_data_in_a_folder_is_sent_under_its_name(shared: Service, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    files = divided(tmp_path, "data/w.bin")
    assert send(shared, files["model.onnx"], ("data/w.bin", files["data/w.bin"])).status_code == 201


def test_data_that_is_not_sent_is_named(shared: Service, tmp_path: Path) -> None:
    files = divided(tmp_path)
    assert "'weights.bin'; send it along" in detail(send(shared, files["model.onnx"]))
    message = detail(send(shared, files["model.onnx"], ("weigths.bin", b"")))
    assert "in 'weights.bin', which was not sent along, where there is 'weigths.bin'" in message
    message = detail(upload(shared, archive({"model.onnx": files["model.onnx"]}), "model.zip"))
    assert "which was not sent along" in message
    short = detail(send(shared, files["model.onnx"], ("weights.bin", b"abc")))
    assert "takes 64 bytes" in short


@pytest.mark.parametrize("name", ["../w.bin", "/etc/w.bin", "a/../../w.bin"])
def test_a_part_may_not_lie_elsewhere(shared: Service, name: str) -> None:
    message = detail(send(shared, b"x", (name, b"data")), "invalid")
    assert "is no name of a file beside the program" in message


def test_parts_of_one_name_and_data_of_other_formats_are_refused(shared: Service) -> None:
    assert "'w.bin' was sent twice" in detail(send(shared, b"x", ("w.bin", b""), ("w.bin", b"")), "invalid")
    parts = {"file": ("model.mlir", b"module {}"), "data": ("w.bin", b"")}
    answer = shared.http.post("/v1/graphs/import", files=parts)
    assert "external data is for ONNX files" in detail(answer, "invalid")


def test_an_archive_beyond_the_limit_is_refused_unread(serve: Serve) -> None:
    service = serve(limits=Limits(upload_bytes=100_000, import_seconds=PATIENCE_S))
    bomb = archive({"model.onnx": b"x", "weights.bin": bytes(10**7)})
    assert len(bomb) < 20_000
    assert "unpacks to 10,000,001 bytes; at most 100,000" in detail(upload(service, bomb, "model.zip"))


def packed(folder: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(folder / "a.zip", "w") as made:
        for info, content in members:
            made.writestr(info, content)
    return folder / "a.zip"


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("../model.onnx", b"")], "no name of a file beside the program"),
        ([("model.onnx", b""), ("/etc/passwd", b"")], "no name of a file beside the program"),
        ([("model.onnx", b""), (link("weights.bin"), b"/etc/passwd")], "'weights.bin' is a link"),
        ([("a.onnx", b""), ("b.onnx", b"")], "expected one .onnx file .* not 2: 'a.onnx', 'b.onnx'"),
        ([("weights.bin", b"")], "expected one .onnx file in the archive, not 0"),
        ([("model.onnx", b""), ("w", b""), ("w/x", b"")], "'w/x' lies in a folder that is a file"),
    ],
)
def test_an_archive_that_does_harm_writes_nothing_outside(
    tmp_path: Path, members: list[tuple[str | zipfile.ZipInfo, bytes]], message: str
) -> None:
    target = tmp_path / "inner" / "target"
    target.mkdir(parents=True)
    with pytest.raises(ImportFailure, match=message):
        unpack(packed(tmp_path, *members), target, 1000)
    assert [p.name for p in (tmp_path / "inner").iterdir()] == ["target"]


def test_a_directory_that_lies_about_sizes_does_not_unpack_more(tmp_path: Path) -> None:
    path = packed(tmp_path, ("model.onnx", b""), ("w.bin", bytes(5000)))
    content = path.read_bytes()
    stated = np.array(5000, "<u4").tobytes()
    path.write_bytes(content.replace(stated, np.array(50, "<u4").tobytes()))
    (tmp_path / "target").mkdir()
    with pytest.raises(ImportFailure, match="cannot be unpacked"):
        unpack(path, tmp_path / "target", 1000)


def test_a_damaged_archive_is_one_message(shared: Service, tmp_path: Path) -> None:
    content = archive(divided(tmp_path))
    for damaged in (b"", content[:-30], b"PK" + content[100:]):
        assert "the archive cannot be unpacked" in detail(upload(shared, damaged, "model.zip"))


def test_a_plain_name_has_its_place(tmp_path: Path) -> None:
    assert place_in(tmp_path, "data/w 1.bin") == tmp_path / "data" / "w 1.bin"
    assert (tmp_path / "data").is_dir()
    for name in ("", ".", "c:w.bin", "a\\w.bin", "a\nb", "x" * 501):
        with pytest.raises(ImportFailure, match="is no name of a file"):
            place_in(tmp_path, name)


def test_a_file_without_a_name_is_a_damaged_archive(tmp_path: Path) -> None:
    path = tmp_path / "nameless.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(zipfile.ZipInfo("x"), "")
        file.infolist()[0].filename = ""
    (tmp_path / "target").mkdir()
    with pytest.raises(ImportFailure, match="cannot be unpacked"):
        unpack(path, tmp_path / "target", 1000)


def test_a_full_disk_is_no_fault_of_an_archive(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    packed = tmp_path / "model.zip"
    packed.write_bytes(archive({"model.onnx": b"x"}))
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr("tapestry.service.archives.shutil.copyfileobj", full)
        unpack(packed, tmp_path / "folder", 2**20)
    with monkeypatch.context() as patch:
        patch.setattr("tapestry.service.api.graphs.receive", full)
        kept = send(service, model().SerializeToString())
    with monkeypatch.context() as patch:
        patch.setattr("starlette.formparsers.UploadFile.write", full)
        received = send(service, model().SerializeToString())
    for answer in (kept, received):
        assert complaint(answer, 507, "no_space")["detail"].startswith("there is no space for temporary")
        assert int(answer.headers["retry-after"]) > 0
