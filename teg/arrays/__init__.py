"""The array operations in which operators' meanings are written, over numpy, torch and jax.numpy."""

from tapestry.teg.arrays.namespace import Array, ArrayNamespace, box_of, is_weak
from tapestry.teg.arrays.numpy_arrays import NUMPY

__all__ = ["NUMPY", "Array", "ArrayNamespace", "box_of", "is_weak"]
