"""Archives of plans that are only their values, and slow reference versions of what they must hold."""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.kernel_arrays import COSTS
from tapestry.optimizer.archive.archive import Archive, insert, insert_infeasible, new_archive

EPSILON = 0.1


def empty(objectives: int, capacity: int = 512, pool: int = 8) -> Archive:
    return new_archive(capacity, pool, objectives, genes=1, edges=1)


def insert_points(archive: Archive, points: np.ndarray, epsilon: float = EPSILON) -> list[bool]:
    """Insert rows of values, with the number of the row as the plan's gene; return which entered."""
    raw, nothing = np.zeros(COSTS, np.int64), np.zeros(1, np.int8)
    grid = np.full(points.shape[1], epsilon)
    return [
        bool(insert(archive, row, grid, raw, np.array([k], np.int16), nothing, nothing, np.uint64(k)))
        for k, row in enumerate(points)
    ]


def insert_violating(archive: Archive, violation: float, digest: int) -> bool:
    raw, nothing = np.zeros(COSTS, np.int64), np.zeros(1, np.int8)
    genes = np.array([digest], np.int16)
    return bool(insert_infeasible(archive, violation, raw, genes, nothing, nothing, np.uint64(digest)))


def members(archive: Archive) -> np.ndarray:
    return archive.value[: int(archive.size[0])].copy()


def dominates(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((a <= b).all() and (a < b).any())


def boxes(points: np.ndarray, epsilon: float = EPSILON) -> np.ndarray:
    """Compute the cells of the logarithmic grid; zero lies below all of them."""
    with np.errstate(divide="ignore"):
        return np.where(points > 0, np.floor(np.log(points) / np.log1p(epsilon)), -1)


def random_points(rng: np.random.Generator, count: int, objectives: int) -> np.ndarray:
    """Draw points around a front over two orders of magnitude: many trade off, some repeat, a few values are zero."""
    points = np.exp(rng.uniform(0, 4, (count, objectives)))
    points *= np.prod(points, axis=1, keepdims=True) ** (-0.9 / objectives) * 40
    points[rng.random(points.shape) < 0.02] = 0.0
    points[count // 2] = points[0]
    return points
