"""Parsing of JSON text: strict, and never deeper than the project's readers go."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tapestry.teg.encoding import MalformedError
from tapestry.teg.issues import clipped

# A million blocks with all that belongs to them are half of it.
MAX_VALUES = 50_000_000


def parse(text: str | bytes) -> Any:
    """Parse the JSON value that `text` holds.

    Raises:
        MalformedError: no UTF-8, no JSON (NaN and the infinities are none), a key that stands twice in one
            object, or nested too deep.
    """
    commas = text.count(b"," if isinstance(text, bytes) else ",")  # type: ignore[arg-type]
    if commas > MAX_VALUES:
        raise MalformedError(
            "$", f"{commas} values", f"at most {MAX_VALUES} are read; split the program", "size"
        )
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        return json.loads(decoded, object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise MalformedError("$", f"no UTF-8 text ({error})", "write the document in UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}: {error.msg}"
        raise MalformedError(
            "$", f"no JSON ({where})", "is the file whole, and is it a TEG document?"
        ) from None
    except RecursionError:
        raise MalformedError(
            "$", "JSON nested too deep", "a document nests as deep as its attribute values"
        ) from None
    except ValueError as error:
        raise MalformedError("$", str(error), "repair the text") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"the key {clipped(counts.most_common(1)[0][0])} stands twice in one object")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f'{text} is no JSON; an attribute writes it as {{"float": "nan"}} or {{"float": "inf"}}')
