"""Adapters for CuTe: expressions, the layout algebra, coordinate tensors, TMA descriptors.

Layouts come as `{"shape": ..., "stride": ...}` of plain integers, with answers by the Python reference, or as the text
the headers print, with answers printed.
"""

from collections.abc import Callable
from typing import Any

from tapestry.hardware.layouts.cute import algebra, inverse, reference, tiling
from tapestry.hardware.layouts.cute.basis import Term, as_coordinate, text
from tapestry.hardware.layouts.cute.composed import Swizzle
from tapestry.hardware.layouts.cute.expressions import evaluate
from tapestry.hardware.layouts.cute.integers import number
from tapestry.hardware.layouts.cute.strided import Strided
from tapestry.hardware.layouts.cute.tensor import ImplicitTensor, printed, rows
from tapestry.hardware.layouts.cute.text import parse_coordinate, parse_iterator, parse_strided, parse_term
from tapestry.hardware.layouts.cute.tma import TmaDescriptor, element_type
from tapestry.hardware.layouts.cute.tuples import inner_product, shape_div
from tapestry.hardware.layouts.cute.tuples import shown as printed_value
from tapestry.hardware.layouts.layout import LayoutError
from tests.hardware.layouts.cute.comparison import same_function
from tests.vectors.runner import Adapter, Values


def tuples(value: Any) -> Any:
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def term(value: Any) -> Term:
    return parse_term(value) if isinstance(value, str) else tuples(value)


def layout(value: Any) -> Strided:
    if isinstance(value, str):
        return parse_strided(value)
    return reference.layout_of(tuples(value["shape"]), tuples(value.get("stride")))


def tiler(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(tiler, value))
    return layout(value) if isinstance(value, str | dict) else value


def plain(value: Any) -> Any:
    value = as_coordinate(value)
    return list(map(plain, value)) if isinstance(value, tuple) else number(value)


def shown(found: Strided) -> Values:
    return {"R": {"shape": plain(found.shape), "stride": plain(found.stride)}, "print": str(found)}


def result(change: Callable[..., Strided], by_function: bool = False) -> Adapter:
    """Build an adapter from layouts to a layout; `by_function` answers as requested if it is the same function."""

    def adapter(v: Values, requested: Values) -> Values:
        found = change(v)
        images = [plain(found(k)) for k in range(number(found.size))] if "function" in requested else None
        answer = {**shown(found), "function": images}
        for key in ("R", "print"):
            if by_function and key in requested and same_function(found, layout(requested[key])):
                answer[key] = requested[key]
        return answer

    return adapter


def pair(change: Callable[[Strided, Any], Strided]) -> Adapter:
    return result(lambda v: change(layout(v["A"]), tiler(v["tiler"] if "tiler" in v else v["B"])), True)


def by_form(of_text: Callable[[Strided], Strided], of_integers: Callable[[Strided], Strided]) -> Adapter:
    return result(lambda v: (of_text if isinstance(v["A"], str) else of_integers)(layout(v["A"])))


def complement(v: Values) -> Strided:
    if isinstance(v["A"], str):
        return algebra.complement(layout(v["A"]), term(v["cotarget"]) if "cotarget" in v else None)
    return reference.complement(layout(v["A"]), v.get("cotarget", 1))


def evaluation(v: Values, _: Values) -> Values:
    coordinate = parse_coordinate(v["coord"]) if isinstance(v["coord"], str) else tuples(v["coord"])
    found = layout(v["layout"])(coordinate)  # type: ignore[arg-type]
    return {"print": text(found), "index": plain(found)}


def print_tensor(v: Values, requested: Values) -> Values:
    tensor = ImplicitTensor(parse_iterator(v["iterator"]), layout(v["layout"]))
    answer = {"header": f"{tensor}:", "text": printed(tensor)}
    return {**answer, "rows": rows(tensor)} if "rows" in requested else answer


def tensor_header(v: Values, _: Values) -> Values:
    layout = Strided(parse_term(v["shape"]), parse_term(v["stride"]))
    return {"header": str(ImplicitTensor(parse_iterator(v["iterator"]), layout))}


def idx2crd(v: Values, _: Values) -> Values:
    return {"coord": plain(reference.coordinate_of(v["idx"], tuples(v["shape"]), tuples(v.get("stride"))))}


def expression(v: Values, _: Values) -> Values:
    return {"print": printed_value(evaluate(v["cpp_expr"]))}


def tma_rank(v: Values, requested: Values) -> Values:
    rank = v.get("rank", len(v.get("shape", v.get("sizes", []))))
    try:
        TmaDescriptor(element_type("float16"), (64,) * rank, (128,) * (rank - 1), (8,) * rank)
    except LayoutError:
        if "error" in requested:
            raise
        return dict.fromkeys(requested, False)
    return dict.fromkeys(requested, True)


DIVISIONS: dict[str, Callable[[Strided, Any], Strided]] = {
    "composition": algebra.composition,
    "layout_composition": algebra.composition,
    "logical_divide": tiling.logical_divide,
    "zipped_divide": tiling.zipped_divide,
    "tiled_divide": tiling.tiled_divide,
    "flat_divide": tiling.flat_divide,
    "logical_product": tiling.logical_product,
    "zipped_product": tiling.zipped_product,
    "tiled_product": tiling.tiled_product,
    "flat_product": tiling.flat_product,
    "blocked_product": tiling.blocked_product,
    "raked_product": tiling.raked_product,
}

CUTE: dict[str, Adapter] = {
    **{kind: pair(change) for kind, change in DIVISIONS.items()},
    "basis_expr": expression,
    "basis_expr_error": expression,
    "basis_layout_eval": evaluation,
    "layout_eval": evaluation,
    "layout_coalesce": result(lambda v: algebra.coalesce(layout(v["A"]))),
    "coalesce": result(lambda v: algebra.coalesce(layout(v["A"]))),
    "flatten": result(lambda v: layout(v["A"]).flat),
    "filter": result(lambda v: algebra.filtered(layout(v["A"]))),
    "layout_complement": result(complement),
    "complement": result(complement),
    "layout_right_inverse": by_form(inverse.right_inverse, reference.right_inverse),
    "right_inverse": by_form(inverse.right_inverse, reference.right_inverse),
    "layout_left_inverse": by_form(inverse.left_inverse, reference.left_inverse),
    "left_inverse": by_form(inverse.left_inverse, reference.left_inverse),
    "tma_descriptor_rank": tma_rank,
    "print_tensor": print_tensor,
    "tma_tensor_print": tensor_header,
    "shape_div": lambda v, _: {"R": plain(shape_div(tuples(v["shape"]), tuples(v["div"])))},
    "prefix_product": lambda v, _: {
        "R": plain(reference.prefix_product(tuples(v["shape"]), tuples(v.get("init", 1))))
    },
    "inner_product": lambda v, _: {"R": plain(inner_product(tuples(v["a"]), tuples(v["b"])))},
    "inner_product_stride": lambda v, _: {
        "value": plain(inner_product(tuples(v["coord"]), parse_term(v["stride"])))
    },
    "idx2crd": idx2crd,
    "swizzle": lambda v, _: {"y": [Swizzle(v["bits"], v["base"], v["shift"]).of(x) for x in v["x"]]},
    "size": lambda v, _: {"print": str(layout(v["A"]).size)},
    "cosize": lambda v, _: {"print": str(layout(v["A"]).cosize)},
    "rank": lambda v, _: {"print": f"_{layout(v['A']).rank}"},
    "depth": lambda v, _: {"print": f"_{layout(v['A']).depth}"},
}
