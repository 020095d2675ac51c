"""Cases taken from the projects our index spaces come from, through a small adapter per kind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from teg.signature import IndexDim, Signature
from teg.zspace import IndexProjection, ZAffineMap, ZRange

CASES = json.loads((Path(__file__).parent.parent / "vectors" / "zspace_teg.json").read_text())
Values = dict[str, Any]

# Conveniences we do not have: the graph model needs no splits, permutations, names or parsers of ranges.
NOT_OURS = {
    *("zrange_parse_error", "zrange_build", "zrange_build_error", "zrange_bounding", "zrange_permute"),
    *("zrange_split_chunk", "zrange_split_sizes", "zrange_cartesian", "zrange_inclusive_corners"),
    *("zrange_inclusive_end", "affine_translate", "affine_permute_input", "affine_permute_output"),
    *("affine_broadcast_apply", "rpm_translate", "rpm_broadcast_apply", "rpm_identity", "rpm_from_diagonal"),
    *("dominance_order", "point_add_dims", "point_permute", "dimension_map", "dimension_map_error"),
    *("marginal_overlap", "marginal_strides"),
}
# Documents of the other project, which come with their own import.
LATER = {"json_roundtrip", "graph_validate"}


def box(value: Values) -> ZRange:
    return ZRange(tuple(value["start"]), tuple(value["end"]))


def plain(value: ZRange) -> Values:
    return {"start": list(value.start), "end": list(value.end)}


def affine(value: Values) -> ZAffineMap:
    return ZAffineMap(tuple(map(tuple, value["projection"])), tuple(value["offset"]))


def projection(value: Values) -> IndexProjection:
    return IndexProjection(affine(value["affineMap"]), tuple(value["shape"]))


def range_props(value: Values) -> Values:
    found = box(value["range"])
    return {
        "ndim": found.rank,
        "size": found.size,
        "is_empty": found.is_empty,
        "shape": list(found.shape),
    }


def project_point(value: Values) -> Values:
    point = tuple(value["point"])
    one = ZRange(point, tuple(p + 1 for p in point))
    return {"range": plain(projection(value["map"]).project(one))}


def project_signature(value: Values) -> Values:
    index = box(value["index"])
    ports = {
        side: {
            name: IndexProjection(affine(port), tuple(port["shape"]))
            for name, port in value["signature"][side].items()
        }
        for side in ("inputs", "outputs")
    }
    dims = tuple(IndexDim(f"d{k}", end) for k, end in enumerate(index.end))
    signature = Signature(dims, tuple(ports["inputs"].values()), tuple(ports["outputs"].values()))
    assert signature.index_range.contains(index)
    return {
        side: {name: plain(p.project(index)) for name, p in named.items()} for side, named in ports.items()
    }


ADAPTERS: dict[str, Callable[[Values], Values]] = {
    "zrange_props": range_props,
    "zrange_string": lambda v: {
        "string": str(box(v["range"])),
        "parse_roundtrip": True,
        "json": plain(box(v["range"])),
    },
    "zrange_coords": lambda v: {"coords": [list(p) for p in box(v["range"]).points()]},
    "zrange_contains_point": lambda v: {"result": box(v["range"]).contains_point(tuple(v["point"]))},
    "zrange_contains_range": lambda v: {"result": box(v["range"]).contains(box(v["other"]))},
    "zrange_intersection": lambda v: {"range": plain(box(v["a"]).intersection(box(v["b"])))},
    "affine_apply": lambda v: {"point": list(affine(v).apply(tuple(v["point"])))},
    "rpm_apply_point": project_point,
    "rpm_apply_range": lambda v: {"range": plain(projection(v["map"]).project(box(v["range"])))},
    "signature_project": project_signature,
}
ERRORS: dict[str, Callable[[Values], object]] = {
    "construct_error": lambda v: affine(v["json"]),
    "affine_apply_error": lambda v: affine(v).apply(tuple(v["point"])),
}


def named(kinds: dict[str, Any]) -> list[Any]:
    return [pytest.param(c, id=c["id"]) for c in CASES if c["kind"] in kinds]


@pytest.mark.parametrize("case", named(ADAPTERS))
def test_given_a_published_case_then_ours_agrees(case: Values) -> None:
    assert ADAPTERS[case["kind"]](case["input"]) == case["expect"]


@pytest.mark.parametrize("case", named(ERRORS))
def test_given_a_published_mistake_then_ours_refuses(case: Values) -> None:
    with pytest.raises(ValueError, match=r"affine map|zip"):
        ERRORS[case["kind"]](case["input"])


def test_every_kind_is_either_adapted_or_listed_as_left_out() -> None:
    kinds = {c["kind"] for c in CASES}
    assert kinds == {*ADAPTERS, *ERRORS, *NOT_OURS, *LATER}
