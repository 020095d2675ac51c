"""Tests of `tapestry mesh`: a file is started from the catalog, checked, and shown."""

from pathlib import Path

from tapestry.hardware import load_mesh
from tests.service.conftest import Run, complaint


def test_a_new_file_is_a_copy_that_checks(tapestry: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    answer = tapestry("mesh", "new", file, "--from", "2x-dgx-h100")
    assert answer.code == 0 and "a copy of 2x-dgx-h100" in answer.out
    assert load_mesh(file) == load_mesh("2x-dgx-h100")
    assert tapestry("mesh", "check", file).out == f"{file}: ok\n"
    assert "say --force" in complaint(tapestry("mesh", "new", file))
    assert tapestry("mesh", "new", file, "--force", "--with-device", "--json").json["from"] == "dgx-h100"
    assert "[device.peak_flops_per_s]" in file.read_text()


def test_a_file_of_another_ending_or_mesh_is_refused(tapestry: Run, tmp_path: Path) -> None:
    assert "ending in .toml" in complaint(tapestry("mesh", "new", tmp_path / "mine.txt"))
    assert "did you mean dgx-h100" in complaint(
        tapestry("mesh", "new", tmp_path / "a.toml", "--from", "dgx-h10")
    )
    assert "cannot write" in complaint(tapestry("mesh", "new", tmp_path / "nowhere" / "a.toml"))
    assert "ends in .toml" in complaint(tapestry("mesh", "check", "dgx-h100"))


def test_a_check_lists_all_faults(tapestry: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    tapestry("mesh", "new", file)
    text = (
        file.read_text()
        .replace("latency_s = 7e-06", "latency_s = 7")
        .replace("efficiency = 0.79", "efficiency = 79")
    )
    file.write_text(text.replace("efficiency = 0.79", "efficiency = 79"))
    answer = tapestry("mesh", "check", file)
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.splitlines() == [
        f"{file}: axes[0]: latency_s: expected a number from 0 to 1 s, not 7; 7 us is 7e-06",
        f"{file}: axes[0]: efficiency: expected a share above 0 and at most 1, not 79; 79 % is 0.79",
        "2 faults",
    ]
    reported = tapestry("mesh", "check", file, "--json")
    assert (reported.code, reported.json["ok"], len(reported.json["faults"])) == (1, False, 2)
    assert "7 us is 7e-06; " in complaint(tapestry("mesh", "show", file))


def test_a_mesh_is_shown_with_its_links_and_device(tapestry: Run) -> None:
    shown = tapestry("mesh", "show", "dgx-h100").out
    assert "dgx-h100: 8 devices, h100-sxm5-80gb (NVIDIA)" in shown
    assert all(figure in shown for figure in ("450 GB/s", "7.000 us", "switch", "74.51 GiB", "bf16 989.4"))
    document = tapestry("mesh", "show", "dgx-h100", "--json").json
    assert (document["device_count"], document["axes"][0]["size"]) == (8, 8)


def test_the_schemas_of_both_files_are_printed(tapestry: Run) -> None:
    mesh, device = tapestry("mesh", "schema").json, tapestry("mesh", "schema", "--device").json
    assert {"required": ["device", "axes"]} in mesh["oneOf"] and "memory_bytes" in device["required"]


def test_a_device_file_is_checked_too(tapestry: Run, tmp_path: Path) -> None:
    file = tmp_path / "device.toml"
    file.write_text(
        (Path("hardware/devices") / "v100-sxm2-16gb.toml").read_text().replace("cores = 80", "core = 80")
    )
    answer = tapestry("mesh", "check", file)
    assert answer.code == 1
    fault, count = answer.out.splitlines()
    expected = "did you mean cores, which is missing? expected a whole number from 1 to 1e+07"
    assert fault.endswith(f"core: unknown key; {expected}") and count == "1 fault"


def test_the_network_of_a_node_is_shown(tapestry: Run) -> None:
    (line,) = (
        line for line in tapestry("mesh", "show", "dgx-h100").out.splitlines() if "between nodes" in line
    )
    assert "any" in line and "50 GB/s" in line
    assert "between nodes" not in tapestry("mesh", "show", "2x-dgx-h100").out


def test_nodes_that_differ_are_listed(tapestry: Run) -> None:
    shown = tapestry("mesh", "show", "2x-dgx-h100+dgx-a100").out
    assert "dgx-h100      2  h100-sxm5-80gb" in shown and "by the worst figure of all kinds" in shown
    document = tapestry("mesh", "show", "2x-dgx-h100+dgx-a100", "--json").json
    assert [(node["count"], node["name"]) for node in document["nodes"]] == [(2, "dgx-h100"), (1, "dgx-a100")]
    assert document["device_count"] == 24
