"""Faults in the shape of a request, in the API's words: what was expected, what came, which members there are.

pydantic finds them; its messages name its own types and patterns, so they are worded anew here. Imported by
`problems.py` alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from tapestry.teg.faults import Fault, escape, near_hint, one_of

Detail = Mapping[str, Any]

LONGEST = 60

# What pydantic's types of errors say was expected.
EXPECTED: Mapping[str, str] = {
    **dict.fromkeys(("string_type", "string_sub_type"), "a text"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type", "mapping_type"), "an object"),
    "none_required": "null",
}
# Names of formats that are written as patterns.
PATTERNS: Mapping[str, str] = {
    "^[0-9a-f]{32}$": "32 digits from 0 to 9 and a to f",
    "^[0-9a-f]{12}$": "an id of a run, 12 digits from 0 to 9 and a to f",
    "^([0-9a-f]{12}-)?[0-9a-f]{12,64}$": "an id of a plan, such as 0f4bb7a2c1d9-930022c7f721",
}


def shape_faults(details: Sequence[Detail], body: Any, form: Any) -> tuple[Fault, ...]:
    """Word the faults that pydantic found, one for each place; `form` is the body's expected type.

    Where a value fits none of several types, the faults of all of them become one.
    """
    merged: dict[str, list[Detail]] = {}
    for detail in details:
        merged.setdefault(_pointer(detail, body), []).append(detail)
    return tuple(_fault(pointer, found, form) for pointer, found in merged.items())


def _fault(pointer: str, details: Sequence[Detail], form: Any) -> Fault:
    first = details[0]
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])
        members = _members(form, first["loc"][1:-1])
        return Fault(pointer, f"there is no member {_shown(name)} here; {near_hint(name, members)}", members)
    if first["type"] == "missing":
        return Fault(pointer, "it is missing" if pointer else "the body is missing: send a JSON object")
    kinds = list(dict.fromkeys(EXPECTED[d["type"]] for d in details if d["type"] in EXPECTED))
    if kinds:
        return Fault(pointer, f"expected {' or '.join(kinds)}, not {_shown(first['input'])}")
    message = MESSAGES.get(first["type"])
    if message is not None:
        return Fault(pointer, message(first, first.get("ctx") or {}), _allowed(first))
    text = str(first["msg"]).removeprefix("Value error, ")
    return Fault(pointer, text[:1].lower() + text[1:], _allowed(first))


def _counted(detail: Detail, context: Detail) -> str:
    least = "least" if detail["type"] == "too_short" else "most"
    bound = context.get("min_length", context.get("max_length"))
    return f"it has {context['actual_length']} members; it may have at {least} {bound}"


def _compared(word: str, key: str) -> Callable[[Detail, Detail], str]:
    return lambda detail, context: f"expected a number {word} {context[key]}, not {_shown(detail['input'])}"


MESSAGES: Mapping[str, Callable[[Detail, Detail], str]] = {
    "string_pattern_mismatch": lambda d, c: f"expected {_pattern(c['pattern'])}, not {_shown(d['input'])}",
    "string_too_long": lambda d, c: f"the text is longer than {c['max_length']} characters",
    "string_too_short": lambda d, c: f"the text is shorter than {c['min_length']} characters",
    "too_long": _counted,
    "too_short": _counted,
    "greater_than": _compared("above", "gt"),
    "greater_than_equal": _compared("from", "ge"),
    "less_than": _compared("below", "lt"),
    "less_than_equal": _compared("up to", "le"),
    "literal_error": lambda d, c: f"expected {one_of(_allowed(d))}, not {_shown(d['input'])}",
    "enum": lambda d, c: f"expected {one_of(_allowed(d))}, not {_shown(d['input'])}",
    "string_unicode": lambda d, c: "the text is not valid Unicode",
}


def _pattern(pattern: str) -> str:
    return PATTERNS.get(pattern, "a text of another form")


def _allowed(detail: Detail) -> tuple[str, ...]:
    expected = (detail.get("ctx") or {}).get("expected", "")
    return tuple(re.findall(r"'([^']*)'", expected))


def _shown(value: Any) -> str:
    """Format a value as JSON would, cut short."""
    known = {True: "true", False: "false", None: "null"}
    if value is None or isinstance(value, bool):
        return known[value]
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _pointer(detail: Detail, body: Any) -> str:
    where, *path = detail["loc"]
    if where != "body":
        return f"#{where}/{'/'.join(escape(str(part)) for part in path)}"
    return "".join(f"/{escape(part)}" for part in _steps(path, body))


def _members(form: Any, path: Sequence[str | int]) -> tuple[str, ...]:
    """Return the members that an object at that place of a body may have."""
    for step in path:
        field = form.model_fields.get(step) if _is_form(form) else None
        form = None if field is None else field.annotation
    return tuple(form.model_fields) if _is_form(form) else ()


def _is_form(form: Any) -> bool:
    return isinstance(form, type) and issubclass(form, BaseModel)


def _steps(path: Sequence[str | int], body: Any) -> Iterator[str]:
    """Yield the steps of a path that lead through the body, and the member that is missing there; names that pydantic
    gives to the alternatives of a type are skipped.
    """
    for k, step in enumerate(path):
        if isinstance(body, Mapping) and step in body:
            body = body[step]
        elif isinstance(body, list) and step in range(len(body)):
            body = body[int(step)]
        elif k < len(path) - 1 or not isinstance(body, Mapping):
            continue
        yield str(step)
