"""CuTe's layouts: hierarchical shapes and strides, their algebra, coordinate tensors and the TMA of Hopper GPUs."""

import re

from tapestry.hardware.layouts.cute.layout import CuteLayout, parse
from tapestry.hardware.layouts.notation import Notation

_START = re.compile(
    r"\s*(((gmem|smem|rmem)_)?ptr\[|Sw<|ArithTuple|counting_iter|([a-rt-z]\w* +)?\(*(_?\d|Sw<))", re.ASCII
)

NOTATION = Notation(
    "cute",
    "CuTe",
    lambda text: _START.match(text[:256]) is not None,
    parse,
    (
        "ptr[16b] o (4,(2,3)):(2,(1,8))",
        "ptr[32b] o (_4,5):(_1,4)",
        "gmem_ptr[8b] o (128,64):(72,_1)",
        "smem_ptr[16b] o Sw<3,3,3> o _0 o (_8,_64):(_64,_1)",
        "ptr[32b] o ((2,2),(3,(2,2))):((1,12),(2,(6,24)))",
        "ptr[64b] o 12:2",
    ),
)

__all__ = ["NOTATION", "CuteLayout", "parse"]
