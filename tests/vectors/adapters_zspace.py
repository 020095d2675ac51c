"""Adapters for points, ranges, maps and projections."""

from tapestry.teg.signature import IndexDim, Signature
from tapestry.teg.zpoint import DimensionMap, dominance, leq, permuted, with_dims
from tapestry.teg.zspace import IndexProjection, ZAffineMap, ZRange
from tests.vectors.runner import Adapter, Values


def box(value: Values) -> ZRange:
    return ZRange(tuple(value["start"]), tuple(value["end"]))


def plain(value: ZRange | None) -> Values | None:
    return None if value is None else {"start": list(value.start), "end": list(value.end)}


def affine(value: Values) -> ZAffineMap:
    return ZAffineMap(tuple(map(tuple, value["projection"])), tuple(value["offset"]))


def matrix(value: ZAffineMap) -> Values:
    return {"projection": value.matrix, "offset": value.offset}


def projection(value: Values) -> IndexProjection:
    return IndexProjection(affine(value["affineMap"]), tuple(value["shape"]))


def port(value: Values) -> IndexProjection:
    return IndexProjection(affine(value), tuple(value["shape"]))


def plain_projection(value: IndexProjection) -> Values:
    return {"affineMap": matrix(value.start), "shape": value.shape}


def range_props(v: Values, _: Values) -> Values:
    found = box(v["range"])
    return {"ndim": found.rank, "size": found.size, "is_empty": found.is_empty, "shape": found.shape}


def range_string(v: Values, _: Values) -> Values:
    found = box(v["range"])
    text = str(found)
    return {"string": text, "parse_roundtrip": ZRange.parse(text) == found, "json": plain(found)}


def order(v: Values, _: Values) -> Values:
    a, b = tuple(v["a"]), tuple(v["b"])
    found = dominance(a, b)
    names = {"less": "LESS_THAN", "greater": "GREATER_THAN", "equal": "EQUAL", "incomparable": "INCOMPARABLE"}
    return {
        "order": names[found],
        "lt": found == "less",
        "le": leq(a, b),
        "ge": leq(b, a),
        "gt": found == "greater",
    }


def dimension_map(v: Values, requested: Values) -> Values:
    dims = DimensionMap(tuple(v["names"]))
    answer: Values = {"json": dims.names}
    for key, value in requested.items():
        if key in ("index", "index_of"):
            answer[key] = {name: dims.index_of(name) for name in value}
        elif key.startswith("permute_"):
            answer[key] = dims.permute(list(map(int, key.split("_")[1:]))).names
        elif key.startswith("to_permutation_"):
            answer[key] = dims.order_of(key.split("_")[2:])
    return answer


def construct(v: Values, _: Values) -> Values:
    producers = {
        "ZAffineMap": affine,
        "ZRange": box,
        "ZRangeProjectionMap": projection,
        "ZPoint": lambda value: permuted(value, range(len(value))),
        "DimensionMap": lambda value: DimensionMap(tuple(value)),
    }
    producers[v["type"]](v["json"])
    return {"error": False}


def project_signature(v: Values, _: Values) -> Values:
    sides = v["signature"]["inputs"], v["signature"]["outputs"]
    inputs, outputs = (tuple(map(port, side.values())) for side in sides)
    index = box(v["index"])
    dims = tuple(IndexDim(f"d{k}", end) for k, end in enumerate(index.end))
    boxes = Signature(dims, inputs, outputs).project(index)
    named = [
        dict(zip(side, map(plain, found), strict=True)) for side, found in zip(sides, boxes, strict=True)
    ]
    return {"inputs": named[0], "outputs": named[1]}


def marginal(v: Values, _: Values) -> Values:
    found = projection(v["map"])
    return {"overlap_in_by_out": found.marginal_overlap, "waste_in_by_out": found.marginal_waste}


ZSPACE: dict[str, Adapter] = {
    "zrange_props": range_props,
    "zrange_string": range_string,
    "zrange_parse_error": lambda v, _: {"range": plain(ZRange.parse(v["string"]))},
    "zrange_build": lambda v, _: {"range": plain(ZRange.build(**v))},
    "zrange_build_error": lambda v, _: {"range": plain(ZRange.build(**v))},
    "zrange_bounding": lambda v, _: {"range": plain(ZRange.around(map(box, v["ranges"])))},
    "zrange_permute": lambda v, _: {"range": plain(box(v["range"]).permute(v["permutation"]))},
    "zrange_coords": lambda v, _: {"coords": list(box(v["range"]).points())},
    "zrange_inclusive_end": lambda v, _: {"point": box(v["range"]).inclusive_end},
    "zrange_contains_point": lambda v, _: {"result": box(v["range"]).contains_point(tuple(v["point"]))},
    "zrange_contains_range": lambda v, _: {"result": box(v["range"]).contains(box(v["other"]))},
    "zrange_intersection": lambda v, _: {"range": plain(box(v["a"]).meeting(box(v["b"])))},
    "zrange_split_chunk": lambda v, _: {
        "ranges": list(map(plain, box(v["range"]).split(v["axis"], v["chunk"])))
    },
    "zrange_split_sizes": lambda v, _: {
        "ranges": list(map(plain, box(v["range"]).split(v["axis"], v["sizes"])))
    },
    "zrange_cartesian": lambda v, _: {"range": plain(box(v["a"]).cross(box(v["b"])))},
    "zrange_inclusive_corners": lambda v, _: {"corners": box(v["range"]).corners()},
    "dominance_order": order,
    "point_add_dims": lambda v, _: {"point": with_dims(tuple(v["point"]), v["dim"], v["count"])},
    "point_permute": lambda v, _: {"point": permuted(v["point"], v["permutation"])},
    "dimension_map": dimension_map,
    "dimension_map_error": lambda v, _: {"json": DimensionMap(tuple(v["names"])).names},
    "construct_error": construct,
    "affine_apply": lambda v, _: {"point": affine(v).apply(tuple(v["point"]))},
    "affine_apply_error": lambda v, _: {"point": affine(v).apply(tuple(v["point"]))},
    "affine_translate": lambda v, _: matrix(affine(v).translate(tuple(v["by"]))),
    "affine_permute_input": lambda v, _: matrix(affine(v).permute_inputs(v["permutation"])),
    "affine_permute_output": lambda v, _: matrix(affine(v).permute_outputs(v["permutation"])),
    "affine_broadcast_apply": lambda v, _: {"point": affine(v).broadcast_apply(tuple(v["point"]))},
    "rpm_apply_point": lambda v, _: {"range": plain(projection(v["map"]).project_point(tuple(v["point"])))},
    "rpm_broadcast_apply": lambda v, _: {
        "range": plain(projection(v["map"]).project_point(tuple(v["point"])))
    },
    "rpm_apply_range": lambda v, _: {"range": plain(projection(v["map"]).project(box(v["range"])))},
    "rpm_translate": lambda v, _: {"map": plain_projection(projection(v["map"]).translate(tuple(v["by"])))},
    "rpm_identity": lambda v, _: {
        "map": plain_projection(IndexProjection.diagonal((1,) * v["ndim"], tuple(v["shape"])))
    },
    "rpm_from_diagonal": lambda v, _: {
        "map": plain_projection(IndexProjection.diagonal(v["diagonal"], tuple(v["shape"])))
    },
    "marginal_overlap": marginal,
    "marginal_strides": lambda v, _: {
        "strides_in_by_out": port(
            {**v["affineMap"], "shape": [1] * len(v["affineMap"]["offset"])}
        ).marginal_strides
    },
    "signature_project": project_signature,
}
