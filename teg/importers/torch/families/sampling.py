"""Translation of torch's sampling of images at points."""

from __future__ import annotations

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.sampling import Rules, sample

PADDINGS = ("zeros", "border", "reflection")
INTERPOLATIONS = ("linear", "nearest", "cubic")


def _grid_sampler(
    t: Tracer, input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    """Sample an image, converting torch's codes of padding and interpolation to their names."""
    rules = Rules(PADDINGS[padding_mode], align_corners, cubic_bounded=False)
    return sample(t, input, grid, INTERPOLATIONS[interpolation_mode], rules)


SAMPLING: tuple[TorchOperator, ...] = (
    TorchOperator(aten("grid_sampler_2d", "grid_sampler_3d", "grid_sampler"), _grid_sampler),
)
