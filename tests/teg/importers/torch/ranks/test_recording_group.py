"""Memory that two tensors share, compared with the addresses of all their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def part(rng: np.random.Generator, x: Any, words: Any) -> Any:
    """Draw a view of a tensor."""
    for _ in range(3):
        dim = int(rng.integers(x.dim()))
        start, stop = sorted(rng.integers(x.shape[dim] + 1, size=2).tolist())
        views = (
            x.narrow(dim, start, stop - start),
            x.transpose(0, -1),
            x[::2],
            x.unsqueeze(dim).expand(*x.shape[:dim], 2, *x.shape[dim:]),
        )
        x = views[rng.integers(len(views))]
    return x.view(words) if x.stride(-1) == 1 and rng.integers(2) else x


def addresses(x: Any) -> set[int]:
    size = x.element_size()
    places = np.full((), x.data_ptr())
    for count, stride in zip(x.shape, x.stride(), strict=True):
        places = places[..., None] + np.arange(count) * stride * size
    return set((places[..., None] + np.arange(size)).reshape(-1).tolist()) if x.numel() else set()


@pytest.mark.slow
def test_views_overlap_where_they_have_bytes_in_common() -> None:
    torch = pytest.importorskip("torch")
    from tapestry.teg.importers.torch.ranks.recording_group import overlap

    rng, found = np.random.default_rng(0), []
    for _ in range(500):
        base = torch.zeros(4, 5, 6, dtype=torch.int32)
        a, b = (part(rng, base, torch.uint8) for _ in range(2))
        found.append(overlap(a, b))
        assert found[-1] is bool(addresses(a) & addresses(b))
    assert 100 < sum(found) < 400
    assert not overlap(torch.zeros(4), torch.zeros(4))
