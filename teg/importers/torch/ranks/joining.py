"""The programs of all ranks as one: what a rank receives is the value that another one sends."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.dumps import GETITEM, read_call, read_value
from tapestry.teg.importers.torch.listing import Input, Listing, Ref, TorchCall, TorchOutput
from tapestry.teg.importers.torch.ranks.matching import Rendezvous, match

RECEIVED = "tapestry.received.default"
REDUCTIONS = {
    "SUM": "aten.add.Tensor",
    "PRODUCT": "aten.mul.Tensor",
    "MAX": "aten.maximum.default",
    "MIN": "aten.minimum.default",
}


def input_name(site: str, rank: int) -> str:
    """Return the name of a rank's part of a source."""
    return f"{site}@{rank}"


def output_name(site: str, rank: int) -> str:
    """Return the name of a rank's part of an output."""
    return f"result.{site}@{rank}"


def join(ranks: Sequence[Mapping[str, Any]], name: str) -> Listing:
    """Join the recorded programs of all ranks to one list of calls.

    Raises:
        ImportFailure: ranks do not meet, or send something else than others receive.
    """
    return _Joining(ranks, name).listing()


class _Joining:
    """The calls so far, and the values that they make, by name."""

    def __init__(self, ranks: Sequence[Mapping[str, Any]], name: str) -> None:
        self.ranks, self.name = ranks, name
        self.rendezvous = match([own["events"] for own in ranks])
        self.inputs: list[Input] = []
        self.calls: list[TorchCall] = []
        self.values: dict[str, Value] = {}
        # Other names of values.
        self.same: dict[str, str] = {}
        self.reduced: dict[int, str] = {}

    def listing(self) -> Listing:
        """Go through the programs side by side: a rank goes on until it needs what another has not made yet."""
        for rank in range(len(self.ranks)):
            self._enter(rank)
        left = [list(reversed(own["nodes"])) for own in self.ranks]
        while any(left):
            before = len(self.values) + len(self.same)
            for rank, nodes in enumerate(left):
                while nodes and self._translate(rank, nodes[-1]):
                    nodes.pop()
            if len(self.values) + len(self.same) == before:
                raise ImportFailure(f"{self.name}: ranks read what is not made yet")
        outputs = tuple(
            TorchOutput(output_name(site, rank), self._resolved(f"{ref}@{rank}"))
            for rank, own in enumerate(self.ranks)
            for site, ref in own["outputs"].items()
            if ref is not None
        )
        return Listing(self.name, tuple(self.inputs), tuple(self.calls), outputs)

    def _enter(self, rank: int) -> None:
        """Add the sources that a rank reads; the values of constants are in the module."""
        own = self.ranks[rank]
        for site, found in own["inputs"].items():
            value = read_value(input_name(site, rank), found, f"input {site!r}")
            constant = own["parts"]["CONSTANTS"].get(site)
            self._add(f"{found['name']}@{rank}", value, None if constant is None else constant["data"])

    def _add(self, ref: str, value: Value, data: str | None) -> None:
        role, array = "activation", None
        if data is not None:
            words = np.frombuffer(base64.b64decode(data), numpy_dtype(value.dtype))
            role, array = "constant", words.reshape(value.shape)
        self.inputs.append(Input(ref, value, role, array))
        self.values[ref] = value

    def _translate(self, rank: int, node: Mapping[str, Any]) -> bool:
        """Add a node of a rank; return False if it needs what is not there yet."""
        name = f"{node['name']}@{rank}"
        own = {**node, "name": name} | {k: _of_rank(node[k], rank) for k in ("args", "kwargs") if k in node}
        if node["op"] == "get_attr":
            self._add(name, read_value(name, node["val"], f"constant {name!r}"), node["data"])
        elif node["target"] == GETITEM:
            self.same[name] = f"{self._resolved(own['args'][0]['node'])}.{node['args'][1]}"
        elif node["target"] == RECEIVED:
            return self._receive(rank, own)
        else:
            self._call(read_call(own, self.same))
        return True

    def _call(self, call: TorchCall) -> None:
        self.calls.append(call)
        self.values |= {value.name: value for value in call.outputs if value is not None}

    def _receive(self, rank: int, node: Mapping[str, Any]) -> bool:
        """Give a name to what a message brings; return False if it is not made yet."""
        name, rendezvous = node["name"], self.rendezvous[rank, node["args"][1]]
        wanted = read_value(name, node["val"], f"node {name!r}")
        sent = {end: self._sent(*come) for end, come in rendezvous.ends.items()}
        if any(ref is not None and ref not in self.values for ref in sent.values()):
            return False
        found = self._brought(rank, rendezvous, sent, wanted)
        if self.values[found].shape == wanted.shape:
            self.same[name] = found
        else:
            self._apply(name, "aten.view.default", (Ref(found), wanted.shape), wanted)
        return True

    def _sent(self, rank: int, event: Mapping[str, Any]) -> str | None:
        """Return the name of the value that a rank gives to a message; None if it has no elements."""
        ref = None if event["sent"] is None else self.ranks[rank]["sent"][event["sent"]]
        return None if ref is None else self._resolved(f"{ref}@{rank}")

    def _brought(
        self, rank: int, rendezvous: Rendezvous, sent: Mapping[Any, str | None], wanted: Value
    ) -> str:
        """Return the name of what a rendezvous gives to a rank, in as many elements as it wants."""
        if rendezvous.kind in ("message", "broadcast"):
            end = "send" if rendezvous.kind == "message" else next(iter(rendezvous.ends.values()))[1]["root"]
            (given,) = self._checked(rank, [sent[end]], wanted, 1)
            return given
        order = [sent[member] for member in rendezvous.expected]
        if rendezvous.kind == "all_gather":
            return self._rows(self._checked(rank, order, wanted, 1 / len(order)), wanted)
        share = len(order) if rendezvous.kind == "reduce_scatter" else 1
        terms = self._checked(rank, order, wanted, share)
        total = self._reduction(rendezvous, terms)
        if share == 1:
            return total
        part, count = rendezvous.expected.index(rank), math.prod(wanted.shape)
        rows, one = f"{wanted.name}.rows", f"{wanted.name}.row"
        self._apply(
            rows, "aten.view.default", (Ref(total), (share, count)), _like(rows, (share, count), wanted)
        )
        self._apply(one, "aten.select.int", (Ref(rows), 0, part), _like(one, (count,), wanted))
        return one

    def _rows(self, parts: Sequence[str], wanted: Value) -> str:
        """Join rows of all members."""
        count = math.prod(wanted.shape) // len(parts)
        lines = []
        for k, part in enumerate(parts):
            line = f"{wanted.name}.part_{k}"
            self._apply(line, "aten.view.default", (Ref(part), (count,)), _like(line, (count,), wanted))
            lines.append(Ref(line))
        whole = f"{wanted.name}.rows"
        self._apply(whole, "aten.cat.default", (tuple(lines), 0), _like(whole, (count * len(parts),), wanted))
        return whole

    def _reduction(self, rendezvous: Rendezvous, terms: Sequence[str]) -> str:
        """Combine the members' terms, once for all of them."""
        op = next(iter(rendezvous.ends.values()))[1]["op"]
        if op not in REDUCTIONS:
            raise ImportFailure(f"{self.name}: reductions by {op} are not read back in")
        if id(rendezvous) not in self.reduced:
            total = terms[0]
            for k, term in enumerate(terms[1:]):
                name = f"{rendezvous.kind}.{len(self.reduced)}.{k}"
                self._apply(
                    name, REDUCTIONS[op], (Ref(total), Ref(term)), _like(name, None, self.values[total])
                )
                total = name
            self.reduced[id(rendezvous)] = total
        return self.reduced[id(rendezvous)]

    def _checked(self, rank: int, given: Sequence[str | None], wanted: Value, share: float) -> list[str]:
        """Check that values have the element type that a rank wants, and `share` times its number of elements."""
        count = round(math.prod(wanted.shape) * share)
        for ref in given:
            value = None if ref is None else self.values[ref]
            if value is None or (math.prod(value.shape), value.dtype) != (count, wanted.dtype):
                held = "nothing" if value is None else f"{math.prod(value.shape)} of {value.dtype}"
                raise ImportFailure(
                    f"the ranks do not meet: rank {rank} receives {count} elements of {wanted.dtype}, it is sent {held}"
                )
        return [ref for ref in given if ref is not None]

    def _apply(self, name: str, target: str, args: tuple[Any, ...], made: Value) -> None:
        self._call(TorchCall(name, target, args, {}, (made,)))

    def _resolved(self, ref: str) -> str:
        return self.same.get(ref, ref)


def _like(name: str, shape: tuple[int, ...] | None, value: Value) -> Value:
    return Value(name, value.shape if shape is None else shape, value.dtype)


def _of_rank(argument: Any, rank: int) -> Any:
    """Return an argument with the names that its values have among those of all ranks."""
    if isinstance(argument, Mapping):
        if argument.keys() == {"node"}:
            return {"node": f"{argument['node']}@{rank}"}
        return {key: _of_rank(a, rank) for key, a in argument.items()}
    return [_of_rank(a, rank) for a in argument] if isinstance(argument, list) else argument
