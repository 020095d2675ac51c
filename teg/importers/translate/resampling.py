"""Kernels, and matrices along one dimension, for resampling."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.translate.builder import Builder
from tapestry.teg.importers.translate.translation import plain_labels

Kernel = Callable[[np.ndarray], np.ndarray]


def linear_kernel(x: np.ndarray) -> np.ndarray:
    """Evaluate the triangle kernel of linear interpolation."""
    return np.asarray(np.maximum(1 - np.abs(x), 0))


def cubic_kernel(a: float) -> Kernel:
    """Return Keys' cubic convolution kernel (IEEE Trans. ASSP 29, 1981, equation 15)."""

    def kernel(x: np.ndarray) -> np.ndarray:
        x = np.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = (((x - 5) * x + 8) * x - 4) * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    return kernel


def multiplied(b: Builder, x: Value, axis: int, matrix: np.ndarray) -> Value:
    """Multiply every line along `axis` by a matrix `(out, size)`."""
    labels = plain_labels(len(x.shape))
    target = tuple("o" if k == axis else d for k, d in enumerate(labels))
    weights = b.literal(matrix.astype(numpy_dtype(x.dtype)))
    return b.contract([x, weights], [labels, ("o", labels[axis])], target)
