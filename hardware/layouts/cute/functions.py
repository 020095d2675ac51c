"""The functions and types that expressions may name, as records; families in files of their own are collected here."""

from tapestry.hardware.layouts.cute.function import CuteFunction
from tapestry.hardware.layouts.cute.functions_layouts import LAYOUT_FUNCTIONS
from tapestry.hardware.layouts.cute.functions_modes import MODE_FUNCTIONS
from tapestry.hardware.layouts.cute.functions_tensors import TENSOR_FUNCTIONS
from tapestry.hardware.layouts.cute.functions_tuples import TUPLE_FUNCTIONS

FUNCTIONS: tuple[CuteFunction, ...] = TUPLE_FUNCTIONS + MODE_FUNCTIONS + LAYOUT_FUNCTIONS + TENSOR_FUNCTIONS

__all__ = ["FUNCTIONS", "CuteFunction"]
