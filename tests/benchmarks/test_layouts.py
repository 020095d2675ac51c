"""Tests of the layout benchmark: equality with the copy by hand, every notation, all figures present."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import layouts
from tapestry.hardware.layouts import NOTATIONS


@pytest.mark.parametrize("case", layouts.CASES, ids=lambda c: c.name)
def test_a_layout_is_equal_to_the_copy_by_hand(case: layouts.LayoutCase) -> None:
    array = np.arange(256 * 256, dtype=np.float32).reshape(256, 256)
    packed = case.layout(256).pack(array)
    np.testing.assert_array_equal(packed.reshape(-1), case.pack(array).reshape(-1))
    np.testing.assert_array_equal(case.unpack(case.pack(array), 256), array)


def test_every_notation_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    layouts.main(["--json", str(file), "--size", "256", "--seconds", "0.01"])
    document = json.loads(file.read_text())
    assert [row["layout"] for row in document["layouts"]] == [case.name for case in layouts.CASES]
    assert {case.layout(256).notation for case in layouts.CASES} == {n.name for n in NOTATIONS}
    for row in document["layouts"]:
        assert row["equal"] and row["pack_s"] > 0 and row["offsets_s"] > 0
    assert "of numpy's speed" in capsys.readouterr().out


def test_a_size_that_tiles_do_not_fill_is_refused() -> None:
    with pytest.raises(SystemExit):
        layouts.main(["--size", "100"])
