"""Operators that write in place, as functions whose result replaces their operand from then on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.torch.families.strided import is_row_major
from tapestry.teg.importers.torch.listing import Extent, Input, Listing, Ref, TorchCall

# Whose results have the elements of their first operand, and its storage.
IDENTITIES = frozenset(
    (
        *("alias", "detach", "lift_fresh", "positive", "resolve_conj", "resolve_neg"),
        *("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"),
    )
)
# Whose results may share the storage of their first operand.
SHARING = IDENTITIES | frozenset(
    (
        *(
            "view",
            "_unsafe_view",
            "reshape",
            "_reshape_alias",
            "view_as",
            "reshape_as",
            "flatten",
            "unflatten",
        ),
        *(
            "permute",
            "transpose",
            "t",
            "numpy_T",
            "mT",
            "adjoint",
            "movedim",
            "moveaxis",
            "swapaxes",
            "swapdims",
        ),
        *("slice", "select", "narrow", "split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk"),
        *("tensor_split", "unbind", "diagonal", "as_strided", "unfold", "einsum", "ravel", "contiguous"),
        *("squeeze", "unsqueeze", "expand", "expand_as", "broadcast_to", "broadcast_tensors", "meshgrid"),
        *(
            "to",
            "type_as",
            "conj",
            "_conj",
            "conj_physical",
            "real",
            "imag",
            "view_as_real",
            "view_as_complex",
        ),
    )
)
# Whose results may share the storage of any of their operands.
SHARING_ALL = frozenset(("broadcast_tensors", "meshgrid"))
# Whose results have storage of their own where the element type changes.
CASTS = frozenset(("to", "type_as"))
# Whose in-place forms change the shape or the strides of their operand, not its elements.
METADATA = SHARING - IDENTITIES


def functional(target: str) -> str | None:
    """Return the target of the function that an in-place operator applies; None for other operators."""
    library, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    if library != "aten" or not name.endswith("_") or name.endswith("__"):
        return None
    return f"{library}.{name[:-1]}.{overload}"


class _Partition:
    """Disjoint groups of names that grow together."""

    def __init__(self) -> None:
        self._groups: dict[str, list[str]] = {}

    def join(self, names: Iterable[str]) -> None:
        """Make one group of the groups that the names are in."""
        groups = sorted({id(g): g for g in map(self.group, names)}.values(), key=len)
        largest = groups.pop()
        for group in groups:
            largest.extend(group)
            self._groups.update(dict.fromkeys(group, largest))

    def group(self, name: str) -> list[str]:
        """Return the names that are in the group of one, itself among them."""
        return self._groups.setdefault(name, [name])


class AliasAnalysis:
    """The names of each tensor, the values that may share its storage, and the last call that reads each.

    The result of an in-place operator is its operand. The caller sees what a program writes into an input, so inputs
    are read at the end.
    """

    def __init__(self, listing: Listing) -> None:
        self._calls = listing.calls
        self._inputs = {i.ref for i in listing.inputs}
        end = len(listing.calls)
        self._last_read = dict.fromkeys((o.ref for o in listing.outputs), end)
        self._last_read |= dict.fromkeys((i.ref for i in listing.inputs), end)
        self._made: dict[str, TorchCall] = {}
        self._dtypes = {i.ref: i.value.dtype for i in listing.inputs}
        # Names of one tensor object, of one tensor's elements, and of values in one storage.
        self._objects, self._tensors, self._storages = _Partition(), _Partition(), _Partition()
        for k, call in enumerate(listing.calls):
            refs = refs_in((call.args, call.kwargs))
            for ref in refs:
                self._last_read[ref] = max(self._last_read.get(ref, 0), k)
            if refs:
                self._share(call, refs)
            results = [o for o in call.outputs if o is not None]
            self._made |= dict.fromkeys((o.name for o in results), call)
            self._dtypes |= {o.name: o.dtype for o in results}
        self._tie(listing.inputs)

    def _tie(self, inputs: Iterable[Input]) -> None:
        """Join inputs that have stored elements in common; they are one tensor where they have all of them."""
        stored: dict[str, list[tuple[Input, Extent]]] = {}
        for given in inputs:
            if given.extent is not None:
                stored.setdefault(given.extent.storage, []).append((given, given.extent))
        for (a, first), (b, second) in (pair for group in stored.values() for pair in combinations(group, 2)):
            if first.overlaps(second):
                self._storages.join((a.ref, b.ref))
            if first == second and a.value == replace(b.value, name=a.value.name):
                self._tensors.join((a.ref, b.ref))

    def _share(self, call: TorchCall, refs: list[str]) -> None:
        results = [o.name for o in call.outputs if o is not None]
        name = _operator(call.target)
        if functional(call.target) is not None:
            for partition in (self._objects, self._tensors, self._storages):
                partition.join((refs[0], *results))
        elif name in SHARING and not self._copies(call, name, refs):
            self._storages.join((*(refs if name in SHARING_ALL else refs[:1]), *results))
            if name in IDENTITIES:
                self._tensors.join((refs[0], *results))

    def _copies(self, call: TorchCall, name: str, refs: list[str]) -> bool:
        """Return whether the result of an operator of `SHARING` surely has storage of its own."""
        if name in CASTS:
            dtypes = {o.dtype for o in call.outputs if o is not None}
            return dtypes != {self._dtypes.get(refs[0])}
        if name == "contiguous" and refs[0] in self._made:
            made = self._made[refs[0]]
            (given,) = [o for o in made.outputs if o is not None and o.name == refs[0]]
            return not is_row_major(given.shape, made.strides.get(refs[0]))
        return name == "einsum" and len(refs) > 1

    def overwritten(self) -> set[str]:
        """Return the names of all tensors that in-place operators write."""
        written = (c for c in self._calls if functional(c.target) is not None)
        refs = (r for c in written for r in refs_in((c.args, c.kwargs))[:1])
        return {name for ref in refs for name in self._tensors.group(ref)}

    def written(self, call: TorchCall, position: int, ref: str) -> list[str]:
        """Return the names of the tensor that a call overwrites where it writes into `ref`.

        Raises:
            ImportFailure: another value that may share its storage is read after the call.
        """
        base = functional(call.target)
        names = self._objects if base is not None and _operator(base) in METADATA else self._tensors
        own = names.group(ref)
        others = set(self._storages.group(ref)).difference(own)
        later = sorted(o for o in others if self._last_read.get(o, -1) > position)
        if later:
            hint = (
                "give each buffer storage of its own (clone)"
                if later[0] in self._inputs and not self._inputs.isdisjoint(own)
                else "save the program after exported.run_decompositions()"
            )
            raise ImportFailure(f"{call.where} writes in place into storage that {later[0]!r} shares; {hint}")
        return own


def _operator(target: str) -> str:
    return target.partition(".")[2].partition(".")[0]


def refs_in(argument: Any) -> list[str]:
    """Return the names that an argument refers to, in order."""
    if isinstance(argument, Ref):
        return [argument.name]
    if isinstance(argument, (tuple, list)):
        return [r for a in argument for r in refs_in(a)]
    if isinstance(argument, Mapping):
        return refs_in(tuple(argument.values()))
    return []
