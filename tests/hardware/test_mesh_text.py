"""Tests that a mesh written as a file is read back as the same mesh."""

from pathlib import Path

import pytest

from tapestry.hardware import load_mesh, mesh_names
from tapestry.hardware.mesh_text import mesh_text


@pytest.mark.parametrize("with_device", [False, True])
@pytest.mark.parametrize("name", [*mesh_names(), "2x-dgx-h100+dgx-a100"])
def test_a_written_mesh_is_read_back(tmp_path: Path, name: str, with_device: bool) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(mesh_text(load_mesh(name), with_device))
    assert load_mesh(file) == load_mesh(name)


def test_figures_have_a_comment_with_meaning_and_range() -> None:
    text = mesh_text(load_mesh("dgx-h100"))
    assert 'device = "h100-sxm5-80gb"\n' in text
    assert (
        "bandwidth_bytes_per_s = 4.5e11  # rate of one device's links along the axis, one way; "
        "a number from 100000 to 1e+15 bytes/s\n" in text
    )
    assert "[device]" in mesh_text(load_mesh("dgx-h100"), with_device=True)
