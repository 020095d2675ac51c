"""Operators that write in place, as functions whose result replaces their operand from then on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.torch.listing import Listing, Ref, TorchCall

# Whose results share the storage of their first operand, as far as we know them.
SHARING = frozenset(
    (
        *(
            "view",
            "_unsafe_view",
            "reshape",
            "permute",
            "transpose",
            "t",
            "expand",
            "slice",
            "select",
            "split",
        ),
        *(
            "split_with_sizes",
            "chunk",
            "unbind",
            "narrow",
            "diagonal",
            "as_strided",
            "unfold",
            "mT",
            "squeeze",
        ),
        *(
            "unsqueeze",
            "alias",
            "detach",
            "flatten",
            "unflatten",
            "contiguous",
            "expand_as",
            "view_as",
            "movedim",
        ),
        *("swapaxes", "broadcast_to", "reshape_as", "to", "type_as", "lift_fresh", "positive"),
    )
)


def functional(target: str) -> str | None:
    """Return the target of the function that an in-place operator applies; None for other operators."""
    library, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    if library != "aten" or not name.endswith("_") or name.endswith("__"):
        return None
    return f"{library}.{name[:-1]}.{overload}"


class AliasAnalysis:
    """The values that share storage, and the last call that reads each."""

    def __init__(self, listing: Listing) -> None:
        self._parents: dict[str, str] = {}
        self._last_read = {o.ref: len(listing.calls) for o in listing.outputs}
        for k, call in reversed(list(enumerate(listing.calls))):
            refs = refs_in((call.args, call.kwargs))
            for ref in refs:
                self._last_read.setdefault(ref, k)
            if refs and call.target.partition(".")[2].partition(".")[0] in SHARING:
                for recorded in call.outputs:
                    if recorded is not None:
                        self._parents[self._root(recorded.name)] = self._root(refs[0])
        self._members: dict[str, list[str]] = {}
        for name in list(self._parents):
            self._members.setdefault(self._root(name), []).append(name)

    def _root(self, name: str) -> str:
        """Return the representative of all names that share its storage."""
        parents = self._parents
        root = parents.setdefault(name, name)
        while parents[root] != root:
            root = parents[root]
        while parents[name] != root:
            parents[name], name = root, parents[name]
        return root

    def check(self, call: TorchCall, position: int, written: str) -> None:
        """Check that nothing that shares a value's storage is read after the value is overwritten.

        Raises:
            ImportFailure: something is.
        """
        own = {written, *(o.name for o in call.outputs if o is not None)}
        others = self._members.get(self._root(written), ())
        later = sorted(o for o in others if o not in own and self._last_read.get(o, -1) > position)
        if later:
            raise ImportFailure(
                f"{call.where} writes in place into storage that {later[0]!r} shares; "
                "save the program after exported.run_decompositions()"
            )


def refs_in(argument: Any) -> list[str]:
    """Return the names that an argument refers to, in order."""
    if isinstance(argument, Ref):
        return [argument.name]
    if isinstance(argument, (tuple, list)):
        return [r for a in argument for r in refs_in(a)]
    if isinstance(argument, Mapping):
        return refs_in(tuple(argument.values()))
    return []
