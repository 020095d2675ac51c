"""CuTe's layouts: hierarchical shapes and strides, their algebra, coordinate tensors and the TMA of Hopper GPUs."""

from tapestry.hardware.layouts.cute.implicit import ImplicitLayout
from tapestry.hardware.layouts.cute.layout import CuteLayout
from tapestry.hardware.layouts.cute.parsing import parse, recognizes
from tapestry.hardware.layouts.notation import Notation

NOTATION = Notation(
    "cute",
    "CuTe",
    recognizes,
    parse,
    (
        "ptr[16b] o (4,(2,3)):(2,(1,8))",
        "ptr[32b] o (_4,5):(_1,4)",
        "gmem_ptr[8b] o (128,64):(72,_1)",
        "smem_ptr[16b] o Sw<3,3,3> o _0 o (_8,_64):(_64,_1)",
        "ptr[32b] o ((2,2),(3,(2,2))):((1,12),(2,(6,24)))",
        "ptr[64b] o 12:2",
    ),
    fragments=(
        (
            r"E<[\d, ]*>(\{\})?",
            "a basis element (one stride); write a layout with it, such as ArithTuple(0,0) o (4,5):(_1@0,_1@1)",
        ),
    ),
)

__all__ = ["NOTATION", "CuteLayout", "ImplicitLayout", "parse"]
