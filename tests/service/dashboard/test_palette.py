"""Tests of the colors of series and mesh axes: whoever is color blind tells them apart, and all are seen on cards."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import tapestry.service.dashboard
from tapestry.teg.html_card import TOKENS as CARD_TOKENS

TOKENS = Path(tapestry.service.dashboard.__file__).parent / "static" / "styles" / "tokens.css"
# Machado, Oliveira, Fernandes (2009), full severity, on linear RGB: no blindness, protan, deutan, tritan.
BLINDNESS = (
    np.eye(3),
    np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
)  # fmt: skip
LEAST_DISTANCE = 0.07  # in OKLab
LEAST_CONTRAST = 3.0  # WCAG 2.2, of graphics


@pytest.mark.parametrize(("scheme", "surface"), [(0, "#ffffff"), (1, "#171c25")])
def test_colors_of_series_and_mesh_axes_differ_to_all_eyes(scheme: int, surface: str) -> None:
    found = re.findall(r"--series-\d: light-dark\((#\w+), (#\w+)\)", TOKENS.read_text())
    colors = [_linear(pair[scheme]) for pair in found]
    assert len(colors) == 8
    for matrix in BLINDNESS:
        seen = [_oklab(np.clip(matrix @ one, 0, 1)) for one in colors]
        assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) >= LEAST_DISTANCE
    behind = _luminance(_linear(surface))
    for one in map(_luminance, colors):
        assert (max(one, behind) + 0.05) / (min(one, behind) + 0.05) >= LEAST_CONTRAST


def test_cards_in_notebooks_have_the_colors_of_the_pages() -> None:
    found = re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)", TOKENS.read_text())
    assert {name: (light, dark) for name, light, dark in found}.items() >= CARD_TOKENS.items()


def _linear(text: str) -> np.ndarray:
    value = np.array([int(text[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def _luminance(color: np.ndarray) -> float:
    return float(color @ np.array([0.2126, 0.7152, 0.0722]))


def _oklab(color: np.ndarray) -> np.ndarray:
    """Convert linear RGB to OKLab (Ottosson, 2020)."""
    cones = np.array(
        [
            [0.41222147, 0.53633254, 0.05144599],
            [0.21190350, 0.68069955, 0.10739696],
            [0.08830246, 0.28171884, 0.62997870],
        ]
    )
    lab = np.array(
        [
            [0.21045426, 0.79361778, -0.00407205],
            [1.97799850, -2.42859221, 0.45059371],
            [0.02590404, 0.78277177, -0.80867577],
        ]
    )
    return np.asarray(lab @ np.cbrt(cones @ color))
