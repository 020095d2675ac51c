"""Long lines, folded as the formatters of Python fold them: ruff and black leave the result alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

WIDTH = 88
INDENT = "    "
_OPENING, _CLOSING = "([{", ")]}"
# Operators of one precedence each, the loosest first.
_OPERATORS = (("==", "!=", "<", "<=", ">", ">="), ("&",), ("+", "-"), ("*", "/", "@"))


def fold(indent: int, text: str, comment: str = "") -> list[str]:
    """Return a statement as lines; its comment stands behind the last one, or above it."""
    margin = INDENT * indent
    behind = f"  # {comment}" if comment else ""
    if len(margin) + len(text) + len(behind) <= WIDTH:
        return [margin + text + behind]
    if len(margin) + len(text) <= WIDTH:
        return [f"{margin}# {comment}", margin + text]
    lines = list(_folded(indent, text))
    targets, equals, value = lines[-1].partition(") = ")
    opened = _last_bracket(value) if equals and targets == margin else None
    if opened and len(lines[-1]) + len(behind) > WIDTH:
        start, end = opened
        lines[-1:] = [f"{margin}) = {value[: start + 1]}", f"{margin}{INDENT}{value[start + 1 : end]}"]
        lines.append(margin + value[end:])
    lines[-1] += behind
    return lines


def _folded(indent: int, text: str) -> Iterator[str]:
    margin = INDENT * indent
    if len(margin) + len(text) <= WIDTH:
        yield margin + text
        return
    returned = split_top(text.removeprefix("return ")) if text.startswith("return ") else []
    if len(returned) > 1:
        yield f"{margin}return ("
        yield from (line for each in returned for line in _folded(indent + 1, f"{each},"))
        yield f"{margin})"
        return
    target, value = _assignment(text)
    targets = split_top(target)
    if value and len(targets) > 1:
        yield f"{margin}("
        yield from (f"{margin}{INDENT}{name}," for name in targets)
        # A name of one letter is as long as the bracket that closes the targets.
        first, *rest = _folded(indent, f"_ = {value}")
        yield first.replace("_ = ", ") = ", 1)
        yield from rest
        return
    head, value = (
        (f"{target} =", value) if target.isidentifier() else ("return", text.removeprefix("return "))
    )
    operators = _operators(value) if value != text else []
    if operators:
        yield f"{margin}{head} ("
        yield from _terms(indent + 1, value, operators)
        yield f"{margin})"
        return
    opened = _last_bracket(text)
    if opened is None:
        yield f"{margin}{text}  # fmt: skip"
        return
    start, end = opened
    inner = INDENT * (indent + 1) + text[start + 1 : end]
    is_subscript = text[start] == "[" and text[start - 1 : start] not in (*" =([{", "")
    is_call = text[start] == "(" and text[start - 1 : start].isidentifier()
    if is_subscript and len(split_top(text[start + 1 : end])) == 1:
        # A comma after its one index would make a tuple of it.
        yield f"{margin}{text}  # fmt: skip"
        return
    yield margin + text[: start + 1]
    clauses = _cut(text[start + 1 : end], _places(text[start + 1 : end], ("for",)))
    if (is_call or is_subscript or len(clauses) > 1) and len(inner) <= WIDTH and not inner.endswith(","):
        yield inner
        yield margin + text[end:]
        return
    if len(clauses) > 1:
        for clause in clauses:
            yield from _folded(indent + 1, clause)
        yield margin + text[end:]
        return
    for part in split_top(text[start + 1 : end]):
        yield from _folded(indent + 1, f"{part},")
    yield margin + text[end:]


def _assignment(text: str) -> tuple[str, str]:
    """Return the targets of an assignment, and its value; other texts whole, and nothing."""
    start = next((k for k, c in _code(text) if c == " " and text.startswith(" = ", k)), len(text))
    return text[:start], text[start + len(" = ") :]


def _terms(indent: int, value: str, operators: list[int]) -> Iterator[str]:
    """Yield an expression on one line, or with each operator at the start of a line."""
    margin = INDENT * indent
    if len(margin) + len(value) <= WIDTH:
        yield margin + value
        return
    for part in _cut(value, operators):
        yield from _folded(indent, part)


def _operators(text: str) -> list[int]:
    """Return where the loosest operators outside all brackets stand."""
    return next((found for words in _OPERATORS if (found := _places(text, words))), [])


def _places(text: str, words: Collection[str]) -> list[int]:
    """Return where words stand outside all brackets, with the spaces before them."""
    found, depth = [], 0
    for k, c in _code(text):
        depth += (c in _OPENING) - (c in _CLOSING)
        if k and c == " " and not depth and text[k + 1 :].partition(" ")[0] in words:
            found.append(k)
    return found


def _cut(text: str, places: Sequence[int]) -> list[str]:
    """Return the parts of a text that begin at these places."""
    bounds = zip([0, *places], [*places, len(text)], strict=True)
    return [text[start:end].strip() for start, end in bounds]


def _last_bracket(text: str) -> tuple[int, int] | None:
    """Return where the bracket at the end of a call opens and closes; None where the text ends in no such bracket."""
    depth, start, found = 0, 0, None
    for k, c in _code(text):
        if c in _OPENING:
            start = k if depth == 0 else start
            depth += 1
        elif c in _CLOSING:
            depth -= 1
            if depth == 0:
                found = (start, k)
    if found is None or found[1] - found[0] < 2 or text[found[1] + 1 :] not in ("", ",", ":"):
        return None
    return found


def split_top(text: str, separator: str = ",") -> list[str]:
    """Split a text at the commas, or another character, that stand outside all brackets."""
    parts, depth, start = [], 0, 0
    for k, c in _code(text):
        depth += (c in _OPENING) - (c in _CLOSING)
        if c == separator and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    rest = text[start:].strip()
    return [*parts, rest] if rest else parts


def _code(text: str) -> Iterator[tuple[int, str]]:
    """Yield the characters that stand outside strings, with their positions."""
    is_string = is_escaped = False
    for k, c in enumerate(text):
        if is_string:
            is_string = is_escaped or c != '"'
            is_escaped = c == "\\" and not is_escaped
        elif c == '"':
            is_string = True
        else:
            yield k, c
