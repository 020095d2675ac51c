"""HTML tables for notebooks: what a class shows of itself beyond its short text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table of texts, all of them escaped."""
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead>{_row('th', head)}</thead>"
        f"<tbody>{''.join(_row('td', row) for row in rows)}</tbody></table>"
    )


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"
