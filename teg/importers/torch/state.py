"""Which outputs are the next value of a state, or a gradient, where the program does not say so itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from teg.importers.program import Value
from teg.importers.torch.inplace import refs_in
from teg.importers.torch.listing import Listing, Output

STATES = ("parameter", "buffer", "optimizer_state")

# Arithmetic on elements, of which updates are made.
ARITHMETIC = frozenset(
    (
        *("add", "sub", "mul", "div", "addcmul", "addcdiv", "lerp", "where", "clone", "alias", "copy", "neg"),
        *("sqrt", "rsqrt", "maximum", "minimum", "clamp", "_to_copy", "pow", "sign", "rsub", "detach", "abs"),
        *("reciprocal", "square"),
    )
)


def recognise_state(listing: Listing) -> Listing:
    """The listing with carried state and gradients recognised by use, unless it says so itself.

    The rule: an output is the next value of a state if it has the state's shape and element type and arithmetic
    on elements of that shape leads from the state to it; where it leads from several, the nearest counts. Where
    no state is carried on and the last outputs have the shapes of the parameters, in order, they are gradients.
    """
    states = {i.ref: i.value for i in listing.inputs if i.role in STATES}
    if listing.says_state or not states:
        return listing
    nearest = _nearest(listing, states)
    outputs: list[Output] = []
    taken: set[str] = set()
    for output in listing.outputs:
        state = nearest.get(output.ref)
        if state is None or state in taken or output.ref in states:
            outputs.append(output)
        else:
            taken.add(state)
            site = states[state].name
            outputs.append(Output(f"{site}.next", output.ref, site))
    return replace(listing, outputs=tuple(outputs if taken else _gradients(listing)))


def _nearest(listing: Listing, states: Mapping[str, Value]) -> dict[str, str]:
    """Per value the state of its shape and type that the fewest calls of arithmetic lie behind."""
    steps: dict[str, dict[str, int]] = {ref: {ref: 0} for ref in states}
    for call in listing.calls:
        recorded = call.outputs[0] if call.outputs else None
        if recorded is None or call.target.partition(".")[2].partition(".")[0] not in ARITHMETIC:
            continue
        behind: dict[str, int] = {}
        for ref in refs_in((call.args, call.kwargs)):
            for state, count in steps.get(ref, {}).items():
                if (states[state].shape, states[state].dtype) == (recorded.shape, recorded.dtype):
                    behind[state] = min(count + 1, behind.get(state, count + 1))
        if behind:
            steps[recorded.name] = behind
    return {name: min(behind, key=lambda s: behind[s]) for name, behind in steps.items()}


def _gradients(listing: Listing) -> tuple[Output, ...]:
    """The outputs, those that fit the parameters named after them."""
    parameters = [i.value for i in listing.inputs if i.role == "parameter"]
    kinds = {o.name: o for call in listing.calls for o in call.outputs if o is not None}
    last = listing.outputs[len(listing.outputs) - len(parameters) :]
    fits = len(last) == len(parameters) and all(
        o.ref in kinds and (kinds[o.ref].shape, kinds[o.ref].dtype) == (p.shape, p.dtype)
        for o, p in zip(last, parameters, strict=True)
    )
    if not fits:
        return listing.outputs
    named = (replace(o, name=f"{p.name}.grad") for o, p in zip(last, parameters, strict=True))
    return (*listing.outputs[: len(listing.outputs) - len(parameters)], *named)
