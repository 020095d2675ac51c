"""Images: tensors `(n, channels, *spatial)` as convolutions and pools read them."""

from __future__ import annotations

from tapestry.rewrites.cell_form import Labels
from tapestry.rewrites.rule import Match, tensor

X, W = tensor("x"), tensor("w")


def spatial_rank(m: Match) -> int:
    """Count the spatial dimensions of the image."""
    return len(m.shape("x")) - 2


def image_names(m: Match) -> Labels:
    """Return names for the dimensions of the image."""
    return ("n", "c", *(f"y{k}" for k in range(spatial_rank(m))))
