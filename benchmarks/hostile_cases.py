"""Programs and requests that are made to break a service or to keep it busy, with the statuses that are right.

Used by `benchmarks.hostile`, which measures them, and by a test, which compares their statuses.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.document import to_document

MIB = 2**20
JSON = {"content-type": "application/json"}
ACCEPTED, REFUSED = (200, 201, 202), (400, 413, 415, 422)
LATER = 202  # what takes long to read is a job


@dataclass(frozen=True)
class Hostile:
    """A hostile request: what is sent, and the statuses of a right answer."""

    name: str
    method: str
    path: str
    statuses: tuple[int, ...]
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Any] | None = None


def small() -> dict[str, Any]:
    """Return the document of `relu(x @ w)`."""
    b = GraphBuilder("small")
    x = b.source("x", (8, 8), "float32")
    w = b.source("w", (8, 8), "float32", "parameter")
    (y,) = b.apply("contract", (x, w), site="y", labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    (z,) = b.apply(
        "cell",
        (y,),
        site="z",
        expr=("relu", ("input", 0)),
        labels=(("m", "n"),),
        dims=(("m", 8), ("n", 8)),
        dtype="float32",
    )
    b.sink(z, site="result")
    return to_document(b.build())


def chain(length: int, width: int = 4) -> dict[str, Any]:
    """Return the document of a chain of as many matrix products."""
    b = GraphBuilder(f"chain {length}")
    value = b.source("x", (width, width), "float32")
    w = b.source("w", (width, width), "float32", "parameter")
    for k in range(length):
        labels = (("m", "k"), ("k", "n"))
        (value,) = b.apply("contract", (value, w), site=f"y{k}", labels=labels, output=("m", "n"))
    b.sink(value, site="result")
    return to_document(b.build())


def cells(depth: int) -> dict[str, Any]:
    """Return the document of one block whose expression nests so deep."""
    document = small()
    cell = next(d for d in document["definitions"] if d["operator"] == "cell")
    expression: Any = ["input", 0]
    for _ in range(depth):
        expression = ["relu", expression]
    cell["attributes"]["expr"] = expression
    return document


def squares(levels: int) -> str:
    """Return a document whose expression doubles with each level, as it is written without sharing."""
    document = small()
    cell = next(d for d in document["definitions"] if d["operator"] == "cell")
    expression: Any = ["input", 0]
    for _ in range(levels):
        expression = ["mul", expression, expression]
    cell["attributes"]["expr"] = expression
    return json.dumps(document)


def many_labels(count: int) -> dict[str, Any]:
    """Return the document of a contraction of tensors with many dimensions of size 1 and 2."""
    b = GraphBuilder("labels")
    labels = tuple(f"d{k}" for k in range(count))
    shape = tuple(2 if k < 4 else 1 for k in range(count))
    x = b.source("x", shape, "float32")
    y = b.source("y", shape, "float32")
    (z,) = b.apply("contract", (x, y), site="z", labels=(labels, labels), output=labels[: count // 2])
    b.sink(z, site="result")
    return to_document(b.build())


def fan(width: int) -> dict[str, Any]:
    """Return the document of one tensor that very many blocks read, all of whose results are added up."""
    b = GraphBuilder("fan")
    x = b.source("x", (4, 4), "float32")
    total = x
    for k in range(width):
        (total,) = b.apply(
            "cell",
            (total, x),
            site=f"s{k}",
            expr=("add", ("input", 0), ("input", 1)),
            labels=(("m", "n"), ("m", "n")),
            dims=(("m", 4), ("n", 4)),
            dtype="float32",
        )
    b.sink(total, site="result")
    return to_document(b.build())


def changed(*keys: Any, value: Any) -> dict[str, Any]:
    """Return the small document with one value replaced."""
    document = copy.deepcopy(small())
    place: Any = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return document


def programs() -> Iterator[Hostile]:
    """Yield more than 60 hostile programs as they are sent to `POST /v1/graphs` and `/v1/graphs/import`."""
    for name, document, statuses in _documents():
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        yield Hostile(name, "POST", "/v1/graphs", (*statuses, LATER), content, JSON)
    for name, file, content, statuses in _files():
        yield Hostile(name, "POST", "/v1/graphs/import", (*statuses, LATER), files={"file": (file, content)})


def _documents() -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    yield "a chain of 30,000 blocks", chain(30_000), ACCEPTED
    yield "a chain of more blocks than are accepted", chain(100_001), (202, 413)
    yield "a tensor that 20,000 blocks read", fan(20_000), ACCEPTED
    yield "a contraction over 200 dimensions", many_labels(200), (*ACCEPTED, 422)
    for depth in (64, 1_000, 20_000):
        yield f"an expression {depth} deep", _deep(depth), (*ACCEPTED, 422)
    yield "an expression that doubles 16 times", squares(16).encode(), (*ACCEPTED, 422)
    for size in (0, -1, 2**31, 2**62, 2**63, 2**200):
        yield f"a size of {size:.3g}", changed("tensors", 0, "shape", value=[size, 8]), REFUSED
    for value in (None, 5, "x", [], {}, True, [[]], [None], ["8", "8"], [8] * 5000):
        yield f"a shape {str(value)[:16]}", changed("tensors", 0, "shape", value=value), REFUSED
    for key in ("definitions", "tensors", "blocks"):
        for value in (None, 5, {}, [None], [[]], [{}] * 20_000):
            yield f"{key} {str(value)[:12]}", changed(key, value=value), REFUSED
    yield "a block that reads its own result", _cycle(), REFUSED
    yield "a name of a megabyte", changed("name", value="a" * MIB), REFUSED
    yield "a name with control characters", changed("name", value="a\x00\x1b[2J\n"), REFUSED
    yield "a site of a megabyte", changed("tensors", 0, "site", value="s" * MIB), REFUSED
    yield "another version", changed("teg", value=10**400), REFUSED
    yield "a million brackets", b"[" * MIB, REFUSED
    yield "a million keys", b"{" + b",".join(b'"%d":0' % k for k in range(MIB)) + b"}", REFUSED
    yield "a number with a million digits", b'{"teg": ' + b"9" * MIB + b"}", REFUSED
    yield "a lone surrogate", json.dumps(small()).replace("small", "\\ud800").encode(), REFUSED
    yield "nothing", b"", REFUSED
    yield "not UTF-8", b'{"teg": 1, "name": "\xff\xfe"}', REFUSED
    yield "not a number", json.dumps(small()).replace('"teg": 1', '"teg": NaN').encode(), REFUSED


def _deep(depth: int) -> bytes:
    """Write a deep expression without the recursion that `json` would need."""
    text = json.dumps(cells(1))
    return text.replace(
        json.dumps(["relu", ["input", 0]]), '["relu", ' * depth + '["input", 0]' + "]" * depth
    ).encode()


def _cycle() -> dict[str, Any]:
    document = small()
    block = next(b for b in document["blocks"] if b.get("inputs"))
    block["inputs"] = [block["outputs"][0], *block["inputs"][1:]]
    return document


def _files() -> Iterator[tuple[str, str, bytes, tuple[int, ...]]]:
    yield "an ONNX file of zeros", "a.onnx", bytes(MIB), REFUSED
    yield "an ONNX file cut short", "a.onnx", b"\x08\x07\x12\x05" + b"\xff" * 64, REFUSED
    yield "an archive of 200 MiB of zeros", "a.zip", _archive({"a.onnx": bytes(200 * MIB)}), REFUSED
    yield "an archive that leaves its folder", "a.zip", _archive({"../../a.onnx": b"x"}), REFUSED
    yield "an archive of many files", "a.zip", _archive({f"{k}": b"" for k in range(20_000)}), REFUSED
    yield "a PyTorch file that is no archive", "a.pt2", b"PK\x03\x04" + bytes(1000), REFUSED
    yield "StableHLO with a million lines", "a.mlir", b"module {\n" * MIB, REFUSED
    yield "gzipped StableHLO that unpacks to 200 MiB", "a.mlir.gz", gzip.compress(bytes(200 * MIB)), REFUSED
    yield "MLIR bytecode of nonsense", "a.mlirbc", b"ML\xefR" + b"\xff" * MIB, REFUSED


def _archive(members: Mapping[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def requests(graph_id: str, run_id: str, plan_id: str) -> Iterator[Hostile]:
    """Yield 60 hostile requests about a program, a run and a plan of it."""
    run = {"graph_id": graph_id, "mesh": "dgx-h100", "budget": {"seconds": 1}}
    yield from _runs(run)
    yield from _batches_and_layouts(run)
    yield from _places(run_id)
    yield from _headers()
    yield from _codings_and_methods()
    yield from _work(graph_id, plan_id)


def _post(name: str, path: str, body: Any, statuses: tuple[int, ...] = REFUSED) -> Hostile:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Hostile(name, "POST", path, statuses, content, JSON)


def _runs(run: Mapping[str, Any]) -> Iterator[Hostile]:
    for key, value in (
        ("rules", ["fuse_cells"] * 100_000),
        ("pins", {f"s{k}": "[-]" for k in range(20_000)}),
        ("pins", {"y": "[" * 10_000}),
        ("objectives", ["time_s"] * 10_000),
        ("constraints", ["time_s<=1"] * 10_000),
        ("constraints", ["time_s<=" + "9" * 100_000]),
        ("mesh", "8x" * 10_000 + "dgx-h100"),
        ("mesh", {"axes": [{"name": f"a{k}", "size": 2**30} for k in range(2_000)]}),
        ("mesh", "10000000000x-dgx-h100"),
        ("micro_batches", 10**30),
        ("stages", 10**9),
        ("islands", 10**9),
        ("seed", 2**200),
        ("budget", {"seconds": 1e308}),
        ("budget", {"evaluations": 10**300}),
        ("start_from", "0" * 100_000),
        ("worth", {"time_s": "1e999usd/s"}),
        ("graph_id", "../" * 1000),
        ("priority", 10**20),
        ("unknown", "x" * MIB),
    ):
        yield _post(f"a run with {key} {str(value)[:20]}", "/v1/runs", {**run, key: value}, (*REFUSED, 404))
    for name, body in (
        ("a body of 9 MiB", b" " * (9 * MIB)),
        ("a body of brackets", b"[" * 100_000),
        ("a body that is no JSON", b"\x00" * 1000),
        ("a body of one number", b"5"),
        ("a body with the same key twice 100,000 times", b'{"a":1' + b',"a":1' * 100_000 + b"}"),
    ):
        yield _post(name, "/v1/runs", body)


def _batches_and_layouts(run: Mapping[str, Any]) -> Iterator[Hostile]:
    for name, body in (
        ("a batch of 10,000 entries", {"entries": [run] * 10_000}),
        ("a batch of nothing", {"entries": []}),
        ("a batch in a batch", {"entries": [{"entries": [run]}]}),
    ):
        yield _post(name, "/v1/batches", body)
    for name, text in (
        ("a layout of 100,000 brackets", "(" * 100_000),
        ("a layout of 10^30 elements", "f32[" + ",".join(["1000"] * 10) + "]{0}"),
        ("a CuTe layout 5,000 deep", "(" * 5_000 + "1" + ")" * 5_000 + ":1"),
        ("a layout with sizes of 1,000 digits", f"({'9' * 1000},4):(1,4)"),
    ):
        yield _post(name, "/v1/layouts/draw", {"text": text}, (200, 413, 422))


def _places(run_id: str) -> Iterator[Hostile]:
    for name, target in (
        ("a list with a cursor of 100 kB", f"/v1/runs?cursor={'a' * 10_000}"),
        ("a list of 10^9", "/v1/runs?limit=1000000000"),
        ("a list of -1", "/v1/runs?limit=-1"),
        ("a parameter 2,000 times", "/v1/runs?" + "&".join(["limit=5"] * 2_000)),
        ("2,000 unknown parameters", "/v1/runs?" + "&".join(f"p{k}=1" for k in range(2_000))),
        ("a path that goes up", "/v1/runs/../../etc/passwd"),
        ("a path that goes up, encoded", "/v1/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd"),
        ("a path with a zero byte", "/v1/runs/%00"),
        ("a path of 10 kB", "/v1/runs/" + "a" * 10_000),
        ("an unknown export", f"/v1/runs/{run_id}/frontier?format={'x' * 5_000}"),
        ("events after 10^30", f"/v1/runs/{run_id}/events?after={10**30}"),
        ("an import by 1,000 hashes", "/v1/graphs/import?filename=a.onnx" + f"&sha256={'0' * 64}" * 100),
    ):
        yield Hostile(name, "GET", target, (400, 404, 414, 422, 200))


def _headers() -> Iterator[Hostile]:
    for name, headers in (
        ("a cookie of 7 kB", {"cookie": "tapestry=" + "a" * 7_000}),
        ("a key of 7 kB", {"authorization": "Bearer " + "a" * 7_000}),
        ("ETags by the thousand", {"if-none-match": ",".join(['"a"'] * 1_000)}),
        ("a foreign host", {"host": "evil.example"}),
        ("a foreign origin", {"origin": "https://evil.example"}),
        ("ranges by the hundred", {"range": "bytes=" + ",".join(f"{k}-{k}" for k in range(500))}),
    ):
        yield Hostile(name, "GET", "/v1/runs", (200, 400, 401, 403, 421), headers=headers)


def _codings_and_methods() -> Iterator[Hostile]:
    compressed = gzip.compress(b" " * (200 * MIB))
    yield Hostile(
        "a gzipped body of 200 MiB",
        "POST",
        "/v1/graphs",
        REFUSED,
        compressed,
        {**JSON, "content-encoding": "gzip"},
    )
    yield Hostile(
        "a body of an unknown coding",
        "POST",
        "/v1/graphs",
        REFUSED,
        b"x",
        {**JSON, "content-encoding": "zstd"},
    )
    yield Hostile("a text as a program", "POST", "/v1/graphs", (415,), b"x", {"content-type": "text/plain"})
    yield Hostile("a method that is not there", "PUT", "/v1/runs", (405,), b"{}", JSON)
    yield Hostile("a delete of all runs", "DELETE", "/v1/runs", (405,))


def _work(graph_id: str, plan_id: str) -> Iterator[Hostile]:
    yield _post(
        "a rewrite at 5,000 places",
        f"/v1/graphs/{graph_id}/rewrites",
        {"moves": [{"rule": "fuse_cells", "site": f"s{k}"} for k in range(5_000)]},
    )
    for name, body in (
        ("an execution on an unknown backend", {"backend": "x" * 10_000}),
        ("an execution with a seed of 200 digits", {"seed": 10**200}),
        ("an execution with 10,000 tensors", {"tensors": {f"t{k}": "x" for k in range(10_000)}}),
        ("an execution that is a list", [1]),
    ):
        yield _post(name, f"/v1/plans/{plan_id}/executions", body)
