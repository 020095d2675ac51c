"""HTML tables for notebooks: what a class shows of itself beyond its short text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def html_table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()
) -> str:
    """Return an HTML table of texts, all of them escaped; the columns in `numbers` have the class `tp-number`."""
    right = set(numbers)
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead>{_row('th', head, right)}</thead>"
        f"<tbody>{''.join(_row('td', row, right) for row in rows)}</tbody></table>"
    )


def _row(tag: str, cells: Sequence[str], right: set[int]) -> str:
    heads = (f'<{tag} class="tp-number">' if k in right else f"<{tag}>" for k in range(len(cells)))
    shown = (f"{begin}{html.escape(cell)}</{tag}>" for begin, cell in zip(heads, cells, strict=True))
    return f"<tr>{''.join(shown)}</tr>"
