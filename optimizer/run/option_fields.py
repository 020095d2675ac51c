"""The description of one option of a run: its name, kind, default and bounds, and its forms in JSON and in text."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tapestry.teg.faults import Fault, near_names, one_of, value_text

Kind = Literal["text", "choice", "integer", "number", "texts", "pairs"]
METADATA = "tapestry.option"
LARGEST_INTEGER = 2**63 - 1
# A share as a text, from 0 to 1 or from 0% to 100%.
SHARE = "(?:0(?:[.][0-9]+)?|1(?:[.]0+)?|(?:100(?:[.]0+)?|[0-9]{1,2}(?:[.][0-9]+)?) ?%)"

_KINDS: dict[Any, Kind] = {str: "text", int: "integer", float: "number", tuple: "texts", Mapping: "pairs"}


@dataclass(frozen=True)
class Option:
    """The description of one option of a run, from which every form of it is made.

    `path` is its place in JSON; `kind` and `choices` follow from the type of the field, and `is_optional` is true where
    None is allowed. Numbers have bounds: `least` and `most` are allowed values, `above` is not. `names` is the catalog
    that its texts are names of, `pattern` their form. A share may be written in percent. On a command line it is `flag
    METAVAR`, given once per text where `is_repeated`; `example` is such a text, for a form.
    """

    name: str
    kind: Kind
    default: Any
    title: str
    description: str
    path: tuple[str, ...]
    flag: str
    metavar: str
    choices: tuple[str, ...] = ()
    is_optional: bool = False
    is_repeated: bool = False
    is_advanced: bool = True
    is_share: bool = False
    example: str = ""
    names: str = ""
    at_least: int = 0
    at_most: int | None = None
    least: float | None = None
    above: float | None = None
    most: float | None = None
    unset: str = ""
    pattern: str = ""

    @property
    def pointer(self) -> str:
        """The place of the option in JSON, as a JSON pointer."""
        return "".join(f"/{part}" for part in self.path)

    def value_in(self, document: Mapping[str, Any]) -> Any:
        """Return the option's JSON value in a document; the default's where it is missing."""
        found: Any = document
        for part in self.path:
            if part not in found:
                return self.to_json(self.default)
            found = found[part]
        return found

    def to_json(self, value: Any) -> Any:
        """Convert a value of the option to JSON."""
        if value is None:
            return None
        return {"texts": list, "pairs": dict}.get(self.kind, lambda plain: plain)(value)

    def from_json(self, value: Any) -> Any:
        """Convert a JSON value to a value of the option; a value of another type stays as it is."""
        return tuple(value) if self.kind == "texts" and isinstance(value, list) else value

    def parse(self, text: str) -> Any:
        """Convert the text of a single value; what is no number stays a text, and is a fault."""
        try:
            if self.is_share and text.rstrip().endswith("%"):
                return float(text.rstrip()[:-1]) / 100
            return {"integer": int, "number": float}.get(self.kind, str)(text)
        except ValueError:
            return text

    def text(self, value: Any) -> str:
        """Return the value as a user reads it."""
        if value is None or (self.kind in ("texts", "pairs") and not value and not self.is_optional):
            return self.unset
        if self.kind == "texts":
            return ", ".join(value) or "none"
        if self.kind == "pairs":
            return "; ".join(f"{name} = {text}" for name, text in value.items())
        if self.is_share:
            return f"{100 * value:g}%"
        return f"{value:g}" if isinstance(value, float) else str(value)

    def faults(self, value: Any, most: float | None = None) -> Iterator[Fault]:
        """Yield what is wrong with a value; `most` is a limit of the service."""
        if value is None and self.is_optional:
            return
        if not self._is_of_kind(value):
            yield self._fault(value, most, self._hint(value))
        elif self.kind == "choice" and value not in self.choices:
            near = near_names(value, self.choices)
            yield self._fault(value, most, f"did you mean {' or '.join(near)}?" if near else "")
        elif self.kind in ("integer", "number"):
            if not self._is_within(value, most):
                yield self._fault(value, most)
        elif self.kind == "texts" and len(value) < self.at_least:
            yield Fault(self.pointer, f"expected at least {self.at_least} of {self.title.lower()}")

    def _fault(self, value: Any, most: float | None, hint: str = "") -> Fault:
        text = f"{value:g}" if isinstance(value, float) else value_text(value)
        detail = f"expected {self._range(most)}, not {text}" + (f"; {hint}" if hint else "")
        return Fault(self.pointer, detail, self.choices)

    def _hint(self, value: Any) -> str:
        """Return what to write instead where a text stands for a list of texts, or no mapping for one."""
        if self.is_share and isinstance(value, str):
            return "write 0.005 or '0.5%'"
        if self.kind == "pairs":
            name, _, text = (self.example or self.metavar).partition("=")
            return f"write {{{name!r}: {text!r}}}"
        if self.kind != "texts" or not isinstance(value, str):
            return ""
        return f"write [{', '.join(repr(part.strip()) for part in value.split(','))}]"

    def _is_of_kind(self, value: Any) -> bool:
        if self.kind in ("text", "choice"):
            return isinstance(value, str)
        if self.kind in ("integer", "number"):
            whole = isinstance(value, int) and not isinstance(value, bool)
            return whole or (self.kind == "number" and isinstance(value, float))
        members = value.items() if isinstance(value, Mapping) else enumerate(value) if _is_list(value) else ()
        are_texts = all(isinstance(member, str) for _, member in members)
        return are_texts and (isinstance(value, Mapping) if self.kind == "pairs" else _is_list(value))

    @property
    def _expected(self) -> str:
        """The type of the values, as an error says it."""
        if self.kind == "choice":
            return one_of(self.choices)
        return {
            "text": "a text",
            "integer": "a whole number",
            "number": "a number",
            "texts": "a list of texts",
            "pairs": "texts by name",
        }[self.kind]

    def _is_within(self, value: float, most: float | None) -> bool:
        most = self.most if most is None else most
        if value in (math.inf, -math.inf):
            return False
        is_above = self.above is None or value > self.above
        return is_above and (self.least is None or value >= self.least) and (most is None or value <= most)

    def _range(self, most: float | None) -> str:
        """Return the bounds as a text, such as `a whole number from 1 to 64`."""
        most = self.most if most is None else most
        if self.least is not None and most is not None:
            return f"{self._expected} from {self.least:g} to {_figure(most)}"
        lower = f" of at least {self.least:g}" if self.least is not None else ""
        lower += f" above {self.above:g}" if self.above is not None else ""
        joined = " and" if lower else " of"
        return self._expected + lower + (f"{joined} at most {_figure(most)}" if most is not None else "")


def option(default: Any, description: str, **more: Any) -> Any:
    """Return a dataclass field that describes an option of a run; `more` are fields of `Option`."""
    metadata = {METADATA: {"description": description, **more}}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def options_of(record: type) -> tuple[Option, ...]:
    """Return the descriptions of a dataclass's options, in the order of its fields."""
    hints = typing.get_type_hints(record)
    return tuple(_described(field, hints[field.name]) for field in dataclasses.fields(record))


def _described(field: dataclasses.Field[Any], hint: Any) -> Option:
    more = dict(field.metadata[METADATA])
    is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    members = typing.get_args(hint) if is_union else (hint,)
    own = next(member for member in members if member is not types.NoneType)
    choices = typing.get_args(own) if typing.get_origin(own) is Literal else ()
    words = field.name.replace("_", " ")
    return Option(
        name=field.name,
        kind="choice" if choices else _KINDS[typing.get_origin(own) or own],
        default={} if field.default is dataclasses.MISSING else field.default,
        title=more.pop("title", words.capitalize()),
        path=more.pop("path", (field.name,)),
        flag=more.pop("flag", "--" + field.name.replace("_", "-")),
        metavar=more.pop("metavar", "|".join(choices) or "N"),
        choices=choices,
        is_optional=types.NoneType in members,
        **more,
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _figure(number: float) -> str:
    if number >= LARGEST_INTEGER:
        return "2**63 - 1"
    return f"{int(number):,}" if number == int(number) else f"{number:g}"
