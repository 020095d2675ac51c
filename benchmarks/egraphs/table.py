"""The page `docs/generated/rewriting.md`, from the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COLUMNS = (
    "graph",
    "blocks",
    "e-nodes, stopped by",
    "greedy, us",
    "ILP, us",
    "gap",
    "ILP CPU s",
    "ours, us",
    "time",
    "memory",
    "covered",
    "saturation + ILP CPU s",
    "to programs CPU s",
    "our CPU s",
    "time, all rules",
    "memory, all rules",
)
HEADER = f"| {' | '.join(COLUMNS)} |\n|---|{'--:|' * (len(COLUMNS) - 1)}"


def row(found: Mapping[str, Any]) -> str:
    """Format one line of the table; for a graph that failed, the reason."""
    if "failed" in found:
        return f"| {found['graph']} | {found['failed']} |" + " |" * (len(COLUMNS) - 2)
    peer, ratios, whole = found["egglog"], found["ratios"], found["ratios_whole_catalog"]
    ilp = peer["programs"]["ilp_time"]
    return (
        f"| {found['graph']} | {found['simplified_blocks']} "
        f"| {peer['saturation']['nodes']} {peer['saturation']['stopped']} "
        f"| {_time_us(peer['programs']['greedy_time'])} | {_time_us(ilp)} "
        f"| {'-' if ilp['gap'] is None else format(ilp['gap'], '.1%')} | {ilp['cpu_s']:.1f} "
        f"| {1e6 * found['ours']['least']['time_s']:.1f} "
        f"| {_ratio(ratios['time_s'])} | {_ratio(ratios['peak_memory_bytes'])} "
        f"| {_covered_text(ratios['covered'])} | {peer['solver_cpu_s']:.2f} | {peer['cpu_s']:.2f} "
        f"| {found['ours']['cpu_s']:.2f} "
        f"| {_ratio(whole['time_s'])} | {_ratio(whole['peak_memory_bytes'])} |"
    )


def _time_us(program: Mapping[str, Any]) -> str:
    if "invalid" in program:
        return "invalid"
    return f"{1e6 * program['cost']['time_s']:.1f}" if "cost" in program else "-"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _covered_text(covered: bool | None) -> str:
    return {True: "yes", False: "**no**", None: "-"}[covered]


def table(document: Mapping[str, Any]) -> str:
    """Format the table and, below it, the measurement conditions and the totals."""
    done = [g for g in document["graphs"] if "failed" not in g]
    known = [g for g in done if g["ratios"]["covered"] is not None]
    covered = [g for g in known if g["ratios"]["covered"]]
    cheaper = [g for g in done if g["ours"]["cpu_s"] < g["egglog"]["cpu_s"]]
    alone = [g for g in done if g["ours"]["cpu_s"] < g["egglog"]["solver_cpu_s"]]
    limits = document["limits"]
    others = [g["graph"] for g in known if g not in covered]
    dearer = [g["graph"] for g in done if g not in cheaper]
    return "\n".join(
        (
            HEADER,
            *map(row, document["graphs"]),
            "",
            f"{document['device']}, egglog {document['egglog']}; at most {_either(limits['nodes'])} e-nodes, "
            f"{limits['passes']} passes ({limits['several']} of rules with two roots), "
            f"{limits['seconds']:.0f} CPU s of saturation, "
            f"{limits['ilp_seconds']:.0f} CPU s per integer program; {limits['evaluations']:,} evaluations of ours.",
            "",
            f"Covered: {len(covered)} of {len(known)} rows{_but(others)}. "
            f"Less CPU than egglog's side to its programs by time: {len(cheaper)} of {len(done)}{_but(dearer)}; "
            f"less than saturation and integer program alone: {len(alone)} of {len(done)}.",
        )
    )


def _either(limits: list[int]) -> str:
    return " or ".join(format(n, ",") for n in limits)


def _but(names: list[str]) -> str:
    return f" (not {', '.join(f'`{n}`' for n in dict.fromkeys(names))})" if names else ""


def page(document: Mapping[str, Any]) -> str:
    """Build the page of the figures."""
    return (
        "<!-- Written by `python -m benchmarks.rewriting --page FILE`. Do not edit this page. -->\n\n"
        "# Rewriting against equality saturation: figures\n\n"
        "[The page about this benchmark](../rewriting-benchmark.md) explains the columns.\n\n"
        f"{table(document)}\n"
    )
