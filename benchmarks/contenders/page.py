"""The table, the page `docs/generated/search.md` and the picture `docs/images/search-benchmark.svg` of the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from statistics import fmean

from rich.table import Table

from benchmarks.contenders.ours import ABLATIONS, WHOLE
from benchmarks.contenders.summary import (
    Comparison,
    Instances,
    comparison,
    comparisons,
    names_of,
    score_of,
    seconds_of,
)

NO_PLAN = "-"
ROW, BAR, LEFT, RIGHT = 22, 8, 190, 380
STYLE = """
svg { color-scheme: light dark; background: #fff; --ink: #1c2430; --faint: #8a94a3; --grid: #e3e7ec; }
text { font: 12px ui-sans-serif, sans-serif; fill: var(--ink); dominant-baseline: central; }
.name { text-anchor: end; } .faint { fill: var(--faint); } .tick { text-anchor: middle; fill: var(--faint); }
line { stroke: var(--grid); } .early { fill: #9db8d9; } .late { fill: #2f6cb3; }
@media (prefers-color-scheme: dark) {
  svg { background: #12161c; --ink: #e6ebf2; --faint: #7d8896; --grid: #2a323d; }
  .early { fill: #3c5878; } .late { fill: #6ea8e6; }
}
"""


def table_of(instances: Instances) -> Table:
    """Build a table of mean hypervolumes by contender and CPU seconds."""
    seconds = seconds_of(instances)
    table = Table("contender", "instances", *(f"{s:g} s" for s in seconds), "fastest, over all")
    for name in names_of(instances):
        found = [comparison(instances, name, s) for s in seconds]
        cells = [NO_PLAN if each is None else f"{each.hypervolume:.4f}" for each in found]
        last = found[-1] if found else None
        table.add_row(name, str(last.instances) if last else "0", *cells, _ratio(last and last.slower))
    return table


def page(instances: Instances, left_out: Sequence[Mapping[str, str]]) -> str:
    """Write the page of figures."""
    seconds, names = seconds_of(instances), names_of(instances)
    ablations = {contender.name for contender in ABLATIONS}
    lines = [
        "<!-- Written by `python -m benchmarks.search --page FILE`. Do not edit this page. -->",
        "",
        "# Quality of the search: figures",
        "",
        "[The page about this benchmark](../search-benchmark.md) explains the columns.",
        "",
        "## Contenders",
        "",
        *_contenders(instances, [name for name in names if name not in ablations], seconds),
        "",
        "## Without a part",
        "",
        *_ablations(instances, [name for name in names if name in ablations], seconds),
        "",
        "## Instances",
        "",
        *_per_instance(instances, names, seconds),
    ]
    if left_out:
        lines += ["", *(f"- Left out: {each['name']} ({each['reason']})." for each in left_out)]
    return "\n".join(lines) + "\n"


def _contenders(instances: Instances, names: Sequence[str], seconds: Sequence[float]) -> list[str]:
    kinds = ("{} s", "all, {} s", "fastest, {} s", "of any, {} s", "no plan, {} s")
    columns = [kind.format(f"{s:g}") for s in seconds for kind in kinds]
    lines = _head("contender", "instances", *columns)
    for name in names:
        found = [comparison(instances, name, s) for s in seconds]
        cells = [cell for each in found for cell in _contender_cells(each)]
        count = max((each.instances for each in found if each is not None), default=0)
        lines.append(f"| {name} | {count} | {' | '.join(cells)} |")
    return lines


def _contender_cells(found: Comparison | None) -> tuple[str, ...]:
    if found is None:
        return (NO_PLAN,) * 5
    shares = f"{found.hypervolume:.3f}", f"{found.whole:.3f}"
    return *shares, _ratio(found.slower), _ratio(found.behind), str(found.empty)


def _ablations(instances: Instances, names: Sequence[str], seconds: Sequence[float]) -> list[str]:
    kinds = ("adds, {} s", "least and most, {} s", "fastest, {} s", "no plan, {} s")
    columns = [kind.format(f"{s:g}") for s in seconds for kind in kinds]
    lines = _head("search", "instances", *columns)
    by_second = [{each.name: each for each in comparisons(instances, names, s)} for s in seconds]
    for name in names:
        found = [each.get(name) for each in by_second]
        cells = [cell for each in found for cell in _ablation_cells(each)]
        count = max((each.instances for each in found if each is not None), default=0)
        lines.append(f"| {name} | {count} | {' | '.join(cells)} |")
    return lines


def _ablation_cells(found: Comparison | None) -> tuple[str, ...]:
    if found is None:
        return (NO_PLAN,) * 4
    missing = f"{found.empty}, all {found.whole_empty}"
    if not found.gains:
        return NO_PLAN, NO_PLAN, NO_PLAN, missing
    gains = found.gains
    return f"{fmean(gains):+.4f}", f"{min(gains):+.3f} to {max(gains):+.3f}", _ratio(found.slower), missing


def _per_instance(instances: Instances, names: Sequence[str], seconds: Sequence[float]) -> list[str]:
    places = [f"{i['graph']} on {i['mesh']}" for i in instances]
    lines = _head("contender", *places)
    for name in names:
        cells = []
        for instance in instances:
            scores = [score_of(instance, name, s) for s in seconds]
            shares = " ".join(NO_PLAN if each is None else f"{each.hypervolume:.3f}" for each in scores)
            cells.append(shares)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _head(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"|---|{'--:|' * (len(columns) - 1)}"]


def _ratio(found: float | None) -> str:
    return NO_PLAN if found is None else f"{found:.3f}"


def picture(instances: Instances) -> str:
    """Draw the mean hypervolume of each contender, at the first and the last checkpoint, as an SVG picture."""
    seconds = seconds_of(instances)
    names = names_of(instances)
    height = ROW * (len(names) + 3)
    width = LEFT + RIGHT + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-label="Mean hypervolume by contender">',
        f"<title>Mean hypervolume by contender</title><style>{STYLE}</style>",
    ]
    for tick in range(0, 11, 2):
        x = LEFT + RIGHT * tick / 10
        parts += [
            f'<line x1="{x:g}" y1="{ROW}" x2="{x:g}" y2="{height - 1.5 * ROW:g}"/>',
            f'<text class="tick" x="{x:g}" y="{height - ROW:g}">{tick / 10:g}</text>',
        ]
    for row, name in enumerate(names):
        parts += _bars(instances, name, seconds, ROW * (row + 1.5))
    kinds = dict.fromkeys([("early", seconds[0]), ("late", seconds[-1])]) if seconds else {}
    for k, (kind, s) in enumerate(kinds):
        x = LEFT + 150 * k
        parts += [
            f'<rect class="{kind}" x="{x}" y="{ROW / 2 - BAR / 2:g}" width="14" height="{BAR}"/>',
            f'<text class="faint" x="{x + 20}" y="{ROW / 2:g}">{s:g} CPU seconds</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bars(instances: Instances, name: str, seconds: Sequence[float], y: float) -> list[str]:
    weight = ' font-weight="bold"' if name == WHOLE.name else ""
    parts = [f'<text class="name"{weight} x="{LEFT - 8}" y="{y:g}">{escape(name)}</text>']
    for kind, s, top in (("early", seconds[0], y - BAR), ("late", seconds[-1], y)):
        found = comparison(instances, name, s)
        if found is not None:
            length = RIGHT * found.hypervolume
            parts.append(
                f'<rect class="{kind}" x="{LEFT}" y="{top:g}" width="{length:.1f}" height="{BAR}">'
                f"<title>{escape(name)}, {s:g} s: {found.hypervolume:.3f}</title></rect>"
            )
    return parts
