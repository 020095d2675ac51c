"""Cards: what classes show of themselves in notebooks, as HTML without scripts or anything from elsewhere.

Every text is escaped where it becomes HTML. Colors are those of the dashboard, by the notebook's theme.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import NewType

from tapestry.teg.html_table import html_table

Html = NewType("Html", str)

# The dashboard's tokens of the same names, in the light and in the dark.
TOKENS: Mapping[str, tuple[str, str]] = {
    "surface": ("#ffffff", "#171c25"),
    "sunken": ("#eef0f4", "#10151d"),
    "line": ("#dde1e8", "#2b3341"),
    "line-strong": ("#8a94a6", "#667288"),
    "text": ("#1a202c", "#e6eaf1"),
    "muted": ("#545f73", "#a0abbd"),
    "accent": ("#3448b5", "#a5b4ff"),
    "accent-soft": ("#e9ecfa", "#242c4b"),
    "good": ("#0f6b3b", "#74d3a0"),
    "good-soft": ("#e2f4e9", "#16352a"),
    "bad": ("#ad1f1a", "#ff9c94"),
    "bad-soft": ("#fdebea", "#42211f"),
    "compute": ("#3f58c9", "#7f93f5"),
    "mark-fastest": ("#c2255c", "#ff8fb4"),
    "mark-smallest": ("#087f5b", "#63e6be"),
    "mark-knee": ("#1a202c", "#ffffff"),
    "grid": ("#e6e9ef", "#272f3c"),
    "series-1": ("#1f6fd6", "#5b9bff"),
    "series-2": ("#d4620a", "#f4a24a"),
    "series-3": ("#17a57b", "#1f9e74"),
    "series-4": ("#8e2a8b", "#e7a6f0"),
    "series-5": ("#9f7ed6", "#b08fc9"),
    "series-6": ("#1b735b", "#99f2e0"),
    "series-7": ("#1b0fa1", "#0e64e5"),
    "series-8": ("#5e2024", "#bd3a2b"),
}
_DARK = ('[data-jp-theme-light="false"]', ".vscode-dark", '[data-theme="dark"]')
_RULES = """
C{color-scheme:light;background:var(--tp-surface);color:var(--tp-text);border:1px solid var(--tp-line);
border-radius:8px;padding:12px 16px;font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;
max-width:1100px}
C header{display:flex;flex-wrap:wrap;gap:4px 10px;align-items:baseline;margin-bottom:8px}
C header strong{font-size:16px;overflow-wrap:anywhere}
C .tp-muted,C figcaption,C caption,C dt{color:var(--tp-muted);font-size:13px}
C p{margin:6px 0}
C dl{display:flex;flex-wrap:wrap;gap:6px 24px;margin:8px 0}C dd{margin:0;font-weight:600}
C table{border-collapse:collapse;margin:8px 0;font-size:13px;background:none}C caption{text-align:left;padding:0 0 4px}
C tr{background:none!important}
C th,C td{padding:3px 14px 3px 0;text-align:left!important}
C th,C td{border-bottom:1px solid var(--tp-line);color:var(--tp-text)}
C th{color:var(--tp-muted);font-weight:600}
C .tp-number,C td:first-child{white-space:nowrap}
C .tp-number{text-align:right!important;font-variant-numeric:tabular-nums}
C .tp-chip{border:1px solid;border-radius:99px;padding:0 8px;font-size:12px}
C .tp-chip{background:var(--tp-surface);color:var(--tp-muted)}
C .tp-good{color:var(--tp-good);background:var(--tp-good-soft)}
C .tp-bad{color:var(--tp-bad);background:var(--tp-bad-soft)}
C figure{margin:8px 0;display:inline-block;vertical-align:top;max-width:100%;margin-right:16px}
C .tp-scrolls{overflow:auto;max-height:520px;max-width:100%}
C details{margin:8px 0}C summary{cursor:pointer;color:var(--tp-accent)}
C .tp-picture .teg text{fill:var(--tp-text)}C .tp-picture .teg .type{fill:var(--tp-muted)}
C .tp-picture .teg rect{fill:var(--tp-surface);stroke:var(--tp-line-strong)}
C .tp-picture .teg .source rect,C .tp-picture .teg .sink rect{fill:var(--tp-sunken)}
C .tp-picture .teg .fold rect{fill:var(--tp-accent-soft);stroke:var(--tp-accent)}
C .tp-picture .teg path{stroke:var(--tp-line-strong)}
C i[class]{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:6px;vertical-align:-1px}
C .tp-entry{display:inline-block;margin-right:16px}
C .tp-plot text{fill:var(--tp-muted);font-size:11px}C .tp-plot line{stroke:var(--tp-grid)}
C .tp-plot .tp-axis{stroke:var(--tp-line-strong)}C .tp-plot polyline{fill:none;stroke:var(--tp-line-strong)}
C .tp-plot polyline{stroke-dasharray:2 3}C .tp-plot circle{fill:var(--tp-compute)}
C .tp-plot .tp-fastest{fill:var(--tp-mark-fastest)}C .tp-plot .tp-knee{fill:var(--tp-mark-knee)}
C .tp-plot .tp-smallest{fill:var(--tp-mark-smallest)}
"""
CLASS = "tapestry-card"
SERIES = 8  # colors that all eyes tell apart


def _style() -> str:
    tokens = "".join(f"--tp-{name}:light-dark({light},{dark});" for name, (light, dark) in TOKENS.items())
    dark = ",".join(f"{place} .{CLASS}" for place in _DARK)
    series = "".join(
        f"C .tp-s{k}{{background:var(--tp-series-{k})}}"
        f"C .tp-picture .teg .tp-s{k} rect{{stroke:var(--tp-series-{k});stroke-width:2.5}}"
        for k in range(1, SERIES + 1)
    )
    rules = (_RULES + series).replace("\n", "").replace("C{", f".{CLASS}{{").replace("C ", f".{CLASS} ")
    return f".{CLASS}{{{tokens}}}{rules}{dark}{{color-scheme:dark}}"


STYLE = _style()


def text_of(text: str) -> Html:
    """Escape a text; characters that are not printable are replaced."""
    visible = "".join(c if c.isprintable() or c == " " else "\N{REPLACEMENT CHARACTER}" for c in text)
    return Html(html.escape(visible))


def card(title: str, note: str, parts: Iterable[Html], chips: Iterable[Html] = ()) -> str:
    """Return a card: a title with a note and chips, and parts below; complete with its style."""
    head = f'<strong>{text_of(title)}</strong><span class="tp-muted">{text_of(note)}</span>{"".join(chips)}'
    return f'<div class="{CLASS}"><style>{STYLE}</style><header>{head}</header>{"".join(parts)}</div>'


def chip(text: str, is_good: bool | None, why: str) -> Html:
    """Return a chip in green, red or neither (None), with the reason as its title."""
    kind = "" if is_good is None else " tp-good" if is_good else " tp-bad"
    return Html(f'<span class="tp-chip{kind}" title="{text_of(why)}">{text_of(text)}</span>')


def figures(pairs: Iterable[tuple[str, str]]) -> Html:
    """Return named figures in a row; those without a text are left out."""
    shown = [
        f"<div><dt>{text_of(name)}</dt><dd>{text_of(value)}</dd></div>" for name, value in pairs if value
    ]
    return Html(f"<dl>{''.join(shown)}</dl>" if shown else "")


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()
) -> Html:
    """Return a table of texts; the columns in `numbers` are aligned to the right."""
    return Html(f'<div class="tp-scrolls">{html_table(caption, head, rows, numbers)}</div>')


def paragraph(text: str, is_muted: bool = False) -> Html:
    """Return a paragraph of text."""
    return Html(f"<p{' class=tp-muted' if is_muted else ''}>{text_of(text)}</p>")


def picture(svg: str, caption: str) -> Html:
    """Return an SVG element that scrolls, with its caption."""
    drawn = f'<div class="tp-scrolls tp-picture">{svg}</div>'
    return Html(f"<figure><figcaption>{text_of(caption)}</figcaption>{drawn}</figure>")


def legend(texts: Sequence[str]) -> Html:
    """Return texts beside the colors of the series; at most `SERIES`."""
    shown = [
        f'<span class="tp-entry"><i class="{series_class(k)}"></i>{text_of(text)}</span> '
        for k, text in enumerate(texts[:SERIES])
    ]
    return Html(f"<p>{''.join(shown)}</p>" if shown else "")


def series_class(number: int) -> str:
    """Return the class of boxes in the color of a series, numbered from 0."""
    return f"tp-s{number + 1}"


def folded(summary: str, parts: Iterable[Html]) -> Html:
    """Return parts that are shown by a click on the summary."""
    return Html(f"<details><summary>{text_of(summary)}</summary>{''.join(parts)}</details>")
