"""Reading a document's JSON values into a graph; every malformed place becomes an issue with its path."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

import tapestry.teg.jsonvalues as take
from tapestry.teg.costs import CostTable, ResourceCost
from tapestry.teg.dtypes import NAMES
from tapestry.teg.encoding import MalformedError, decode_array, decode_value
from tapestry.teg.external_data import ExternalData
from tapestry.teg.graph import Block, Definition, Graph, Tensor
from tapestry.teg.issues import Issue, key_path, listing
from tapestry.teg.signature import IndexDim, Signature
from tapestry.teg.stored_values import StoredValue
from tapestry.teg.zspace import IndexProjection, ZAffineMap

T = TypeVar("T")

HASH = re.compile("[0-9a-f]{64}")

TOP = ("teg", "name", "definitions", "tensors", "blocks", "data")
BLOCK = ("site", "definition", "inputs", "outputs")
BLOCK_OPTIONAL = ("index", "device", "after", "repetition")


class DocumentError(ValueError):
    """Error raised for an unreadable document (or an unwritable graph): the fault, its place, and the remedy."""

    def __init__(self, issues: Sequence[Issue], heading: str = "this is no TEG document") -> None:
        super().__init__(listing(heading, issues))
        self.issues = tuple(issues)

    @property
    def path(self) -> str:
        """The JSON path of the first issue."""
        return self.issues[0].path


def decode(obj: Any, *, version: int, max_blocks: int, max_bytes: int) -> Graph:
    """Build the graph of the JSON values `obj`; see `teg.document.from_document`."""
    issues: list[Issue] = []
    try:
        _check_top(obj, version, max_blocks, max_bytes)
    except MalformedError as problem:
        raise DocumentError([problem.issue]) from None
    definitions = _each(obj["definitions"], "$.definitions", _definition, issues)
    tensors = _each(obj["tensors"], "$.tensors", _tensor, issues)

    def block(value: Any, path: str) -> Block | None:
        return _block(value, path, definitions)

    blocks = _each(obj["blocks"], "$.blocks", block, issues)
    data: dict[str, np.ndarray] = {}
    external: dict[str, ExternalData] = {}
    for site, value in obj["data"].items():
        path = key_path("$.data", site)
        try:
            if type(value) is dict and "tensor" in value:
                external[site] = _external(value, path)
            else:
                data[site] = _array(value, path)
        except MalformedError as problem:
            issues.append(problem.issue)
    by_site = {t.site: t for t in tensors if t}
    if len(by_site) != len(tensors) and not issues:
        issues.extend(_repeated([t.site for t in tensors if t]))
    values: dict[str, StoredValue] = {}
    for name, value in obj.get("values", {}).items():
        try:
            values[name] = _value(value, key_path("$.values", name), by_site)
        except MalformedError as problem:
            issues.append(problem.issue)
    if issues:
        raise DocumentError(issues)
    return Graph(obj["name"], tuple(b for b in blocks if b), by_site, data, external, values)


def _check_top(obj: Any, version: int, max_blocks: int, max_bytes: int) -> None:
    if type(obj) is not dict or "teg" not in obj:
        raise MalformedError(
            "$", f"{take.kind_of(obj)} without 'teg'", f'a document is an object with "teg": {version}'
        )
    if type(obj["teg"]) is not int or obj["teg"] != version:
        hint = f"this program reads version {version}; convert the document or upgrade the program"
        raise MalformedError("$.teg", f"version {obj['teg']!r}", hint, "version")
    take.members(obj, "$", TOP, ("values",))
    take.text(obj["name"], "$.name")
    for key in ("definitions", "tensors", "blocks"):
        values = take.listed(obj[key], f"$.{key}")
        if len(values) > max_blocks:
            hint = f"at most {max_blocks} are accepted; raise max_blocks"
            raise MalformedError(f"$.{key}", f"{len(values)} {key}", hint, "size")
    if type(obj["data"]) is not dict:
        raise MalformedError("$.data", take.kind_of(obj["data"]), "expected an object of arrays by tensor")
    if type(obj.get("values", {})) is not dict:
        raise MalformedError("$.values", take.kind_of(obj["values"]), "expected an object of values by name")
    arrays = [a for a in obj["data"].values() if type(a) is dict]
    size = sum(len(a["base64"]) * 3 // 4 for a in arrays if type(a.get("base64")) is str)
    if size > max_bytes:
        raise MalformedError(
            "$.data", f"{size} bytes", f"at most {max_bytes} are accepted; raise max_bytes", "size"
        )


def _each(values: list[Any], path: str, read: Callable[[Any, str], T], issues: list[Issue]) -> list[T | None]:
    """Read every value; a malformed one leaves None in the list and an issue."""
    found: list[T | None] = []
    for k, value in enumerate(values):
        try:
            found.append(read(value, f"{path}[{k}]"))
        except MalformedError as problem:
            found.append(None)
            issues.append(problem.issue)
    return found


def _definition(value: Any, path: str) -> Definition:
    take.members(value, path, ("operator", "attributes", "signature"), ("costs",))
    attributes = value["attributes"]
    where = f"{path}.attributes"
    if type(attributes) is not dict:
        raise MalformedError(where, take.kind_of(attributes), "expected an object of values by name")
    pairs = tuple((k, decode_value(attributes[k], key_path(where, k))) for k in sorted(attributes))
    signature = value["signature"]
    return Definition(
        take.site(value["operator"], f"{path}.operator"),
        pairs,
        None if signature is None else _signature(signature, f"{path}.signature"),
        _costs(value["costs"], f"{path}.costs") if "costs" in value else None,
    )


def _costs(value: Any, path: str) -> CostTable:
    if type(value) is not dict:
        raise MalformedError(path, take.kind_of(value), "expected an object of amounts by resource")
    resources = []
    for name in sorted(value):
        where = key_path(path, name)
        cost = value[name]
        if type(cost) is not dict:
            resources.append(ResourceCost(take.site(name, where), _amount(cost, where)))
            continue
        take.members(cost, where, (), ("fixed", "steps"))
        steps = cost.get("steps", {})
        if type(steps) is not dict:
            raise MalformedError(f"{where}.steps", take.kind_of(steps), "expected amounts by index dimension")
        along = tuple((d, _amount(steps[d], key_path(f"{where}.steps", d))) for d in sorted(steps))
        fixed = _amount(cost.get("fixed", 0), f"{where}.fixed")
        resources.append(ResourceCost(take.site(name, where), fixed, along))
    try:
        return CostTable(tuple(resources))
    except ValueError as error:
        raise MalformedError(path, "no cost table", str(error), "costs") from None


def _amount(value: Any, path: str) -> int | float:
    if type(value) not in (int, float) or not 0 <= value <= sys.float_info.max:
        raise MalformedError(path, take.kind_of(value), "an amount is a finite number from 0 up", "costs")
    amount: int | float = value
    return amount


def _signature(value: Any, path: str) -> Signature:
    take.members(value, path, ("dims", "inputs", "outputs"))
    dims = [_dim(v, f"{path}.dims[{k}]") for k, v in enumerate(take.listed(value["dims"], f"{path}.dims"))]
    inputs, outputs = (
        [_projection(v, f"{path}.{key}[{k}]") for k, v in enumerate(take.listed(value[key], f"{path}.{key}"))]
        for key in ("inputs", "outputs")
    )
    try:
        return Signature(tuple(dims), tuple(inputs), tuple(outputs))
    except ValueError as error:
        raise MalformedError(path, "no signature", str(error), "signature") from None


def _dim(value: Any, path: str) -> IndexDim:
    take.members(value, path, ("name", "size", "kind"))
    size = take.integer(value["size"], f"{path}.size")
    if size < 0:
        raise MalformedError(f"{path}.size", f"{size}", "a size is 0 or more")
    return IndexDim(take.site(value["name"], f"{path}.name"), size, take.text(value["kind"], f"{path}.kind"))


def _projection(value: Any, path: str) -> IndexProjection:
    take.members(value, path, ("matrix", "offset", "shape"))
    rows = take.listed(value["matrix"], f"{path}.matrix")
    matrix = tuple(take.integers(row, f"{path}.matrix[{k}]") for k, row in enumerate(rows))
    try:
        start = ZAffineMap(matrix, take.integers(value["offset"], f"{path}.offset"))
        return IndexProjection(start, take.integers(value["shape"], f"{path}.shape"))
    except ValueError as error:
        raise MalformedError(path, "no projection", str(error), "signature") from None


def _tensor(value: Any, path: str) -> Tensor:
    take.members(value, path, ("site", "shape", "dtype"), ("names",))
    return Tensor(
        take.site(value["site"], f"{path}.site"),
        take.integers(value["shape"], f"{path}.shape"),
        take.text(value["dtype"], f"{path}.dtype"),
        take.sites(value["names"], f"{path}.names") if "names" in value else (),
    )


def _value(value: Any, path: str, tensors: Mapping[str, Tensor]) -> StoredValue:
    take.members(value, path, ("tensor", "shape", "dims"))
    tensor = take.site(value["tensor"], f"{path}.tensor")
    shape = take.integers(value["shape"], f"{path}.shape")
    rows = take.listed(value["dims"], f"{path}.dims")
    dims = tuple(take.integers(row, f"{path}.dims[{k}]") for k, row in enumerate(rows))
    if tensor not in tensors:
        raise MalformedError(f"{path}.tensor", f"{tensor!r} is no tensor", "expected a tensor of the program")
    sizes = tensors[tensor].shape
    used = [d for own in dims for d in own]
    if (
        len(dims) != len(shape)
        or len(set(used)) != len(used)
        or any(not 0 <= d < len(sizes) for d in used)
        or any(own and prod(sizes[d] for d in own) != n for own, n in zip(dims, shape, strict=True))
    ):
        hint = "each dimension of the value has the dimensions of the tensor that are its factors"
        raise MalformedError(f"{path}.dims", "these do not make up the shape", hint)
    return StoredValue(tensor, shape, dims)


def _block(value: Any, path: str, definitions: list[Definition | None]) -> Block | None:
    take.members(value, path, BLOCK, BLOCK_OPTIONAL)
    number = take.integer(value["definition"], f"{path}.definition")
    if not 0 <= number < len(definitions):
        raise MalformedError(
            f"{path}.definition",
            f"there is no definition {number}",
            f"positions run from 0 to {len(definitions) - 1}",
        )
    definition = definitions[number]
    site = take.site(value["site"], f"{path}.site")
    inputs = take.sites(value["inputs"], f"{path}.inputs")
    outputs = take.sites(value["outputs"], f"{path}.outputs")
    index = take.box(value["index"], f"{path}.index") if "index" in value else None
    device = take.integer(value["device"], f"{path}.device") if "device" in value else None
    after = take.sites(value["after"], f"{path}.after") if "after" in value else ()
    repetition = take.integer(value["repetition"], f"{path}.repetition") if "repetition" in value else 0
    if repetition < 0:
        raise MalformedError(f"{path}.repetition", f"{repetition}", "counts are 0 or more")
    if definition is None:
        return None
    return Block(site, definition, inputs, outputs, index, device, after, repetition)


def _array(value: Any, path: str) -> np.ndarray:
    take.members(value, path, ("dtype", "shape", "base64"))
    shape = take.integers(value["shape"], key_path(path, "shape"))
    if any(n < 0 for n in shape):
        raise MalformedError(key_path(path, "shape"), f"{list(shape)}", "sizes are 0 or more")
    text = take.text(value["base64"], key_path(path, "base64"))
    return decode_array(take.text(value["dtype"], key_path(path, "dtype")), shape, text, path)


def _external(value: Any, path: str) -> ExternalData:
    take.members(value, path, ("tensor", "dtype", "shape", "sha256", "box"))
    shape = take.integers(value["shape"], key_path(path, "shape"))
    sha256, dtype = (take.text(value[key], key_path(path, key)) for key in ("sha256", "dtype"))
    box = take.box(value["box"], key_path(path, "box"))
    if not HASH.fullmatch(sha256):
        raise MalformedError(key_path(path, "sha256"), sha256[:80], "expected 64 digits from 0 to f")
    if dtype not in NAMES:
        raise MalformedError(key_path(path, "dtype"), dtype[:80], f"known are {', '.join(NAMES)}")
    if len(shape) != box.rank:
        message = f"a box of rank {box.rank} of a tensor of rank {len(shape)}"
        raise MalformedError(key_path(path, "box"), message, "give a start and an end per dimension")
    return ExternalData(take.site(value["tensor"], key_path(path, "tensor")), dtype, shape, sha256, box)


def _repeated(sites: Sequence[str]) -> list[Issue]:
    first: dict[str, int] = {}
    issues = []
    for k, site in enumerate(sites):
        if first.setdefault(site, k) != k:
            where = f"$.tensors[{k}].site"
            issues.append(
                Issue("site", where, f"tensor {site!r} stands at {first[site]} already", "rename one")
            )
    return issues
