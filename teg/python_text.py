"""Names and texts of users inside modules of Python that are written out: none of them can become code."""

from __future__ import annotations


def quoted(text: str) -> str:
    """Return a string literal of Python, on one line and in double quotes."""
    return f'"{_escaped(text, QUOTES)}"'


def template(text: str) -> str:
    """Return an f-string literal; braces in `text` are its fields, so that names with braces have no templates."""
    return f"f{quoted(text)}"


def has_braces(text: str) -> bool:
    """Return whether a text would have fields as a template."""
    return "{" in text or "}" in text


def visible(text: str) -> str:
    """Return a text on one line, for comments: characters that are not printable become escapes."""
    return _escaped(text, "")


def docstring(text: str) -> str:
    """Return a literal in triple quotes of the lines of a text; one of several lines ends with an empty one."""
    lines = [_escaped(line, "\\") for line in text.split("\n")]
    body = "\n".join(lines).replace('"""', "'''")
    return f'"""{body}\n"""' if len(lines) > 1 or body.endswith('"') else f'"""{body}"""'


QUOTES = '"\\'


def _escaped(text: str, special: str) -> str:
    """Return a text with escapes of characters that are not printable, and a backslash before the special ones."""
    if text.isprintable() and not any(c in text for c in special):
        return text
    return "".join(
        f"\\{c}" if c in special else c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in text
    )
