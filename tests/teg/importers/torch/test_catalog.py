"""Tests of the catalog of torch operators against torch's own."""

from __future__ import annotations

from collections import Counter

from tapestry.teg.importers.torch.families import OPERATORS
from tests.teg.importers.torch.live import torch

TARGETS = [target for operator in OPERATORS for target in operator.targets]


def test_every_operator_exists_in_torch_and_has_one_translation() -> None:
    library = [t.split(".")[1:] for t in TARGETS if t.startswith("aten.")]
    unknown = [f"{n}.{o}" for n, o in library if not hasattr(getattr(torch.ops.aten, n, None), o)]
    assert unknown == []
    assert [t for t, n in Counter(TARGETS).items() if n > 1] == []


def test_core_aten_is_complete() -> None:
    packets = [getattr(torch.ops.aten, name) for name in dir(torch.ops.aten)]
    overloads = [getattr(p, o) for p in packets if hasattr(p, "overloads") for o in p.overloads()]
    core = {str(f) for f in overloads if torch.Tag.core in f.tags}
    assert len(core) > 180
    core.discard("aten.sym_is_contiguous.default")  # makes no tensor; there once a program was exported
    assert core - set(TARGETS) == {"aten.atan2.out"}  # writes into a tensor that is passed in
