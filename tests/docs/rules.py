"""The pages `docs/generated/rules.md` and `docs/generated/firings.md`; `python -m tests.docs.rules` writes them.

The catalog comes from the code, the firings from `benchmarks/results/firings.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from tapestry import rewrites
from tapestry.rewrites import RULES, Rule
from tests.docs.generated import FOLDER, ROOT, page, write

FIGURES = ROOT / "benchmarks" / "results" / "firings.json"

# Columns of the short table: what is looked for, and the rules that find it.
FOUND: Mapping[str, str] = {
    "attention fused": r".*attention.*",
    "batch norm folded": r"fold_into_conv",
    "activation named": r"(quick_)?gelu.*|silu|softplus|sigmoid.*",
    "softmax found again": r"(log_)?softmax_of_.*",
    "normalization found again": r"layer_norm_of_(?!scale|bias).*",
    "cells fused": r"fuse_cells",
}


def families() -> list[tuple[ModuleType, list[tuple[ModuleType, list[Rule]]]]]:
    """Return the packages of rules in the order of the catalog; per package its files with the rules they define."""
    left = dict.fromkeys(RULES)
    found = []
    for package in (
        import_module(f"tapestry.rewrites.{m.name}") for m in iter_modules(rewrites.__path__) if m.ispkg
    ):
        names = [m.name for m in iter_modules(package.__path__) if m.name != "rules"]  # the sum of the others
        files = [import_module(f"{package.__name__}.{name}") for name in names]
        rules = [(file, [r for r in dict.fromkeys(_rules(file)) if left.pop(r, r) is None]) for file in files]
        found.append((package, [(file, own) for file, own in rules if own]))
    if left:
        raise ValueError(f"no file of a family has a tuple with the rules {[r.name for r in left]}")
    order = list(RULES)
    return sorted(
        (f for f in found if f[1]), key=lambda f: min(order.index(r) for _, own in f[1] for r in own)
    )


def _rules(module: ModuleType) -> Iterator[Rule]:
    """Yield the rules of a module's tuples."""
    for value in vars(module).values():
        if isinstance(value, tuple) and value and all(isinstance(v, Rule) for v in value):
            yield from value


def catalog() -> str:
    """Build the catalog text: every family, every file of it, every rule."""
    parts = []
    for package, files in families():
        count = sum(len(own) for _, own in files)
        parts.append(
            f"## {package.__name__.rpartition('.')[2].capitalize()} ({count} rules)\n\n{_first(package)}"
        )
        for file, own in files:
            parts.append(f"### {_first(file).rstrip('.')}\n")
            parts += [entry(rule) for rule in dict.fromkeys(own)]
    return "\n\n".join(parts)


def _first(module: ModuleType) -> str:
    """Return the first line of a module's docstring."""
    return (module.__doc__ or "").strip().splitlines()[0]


def entry(rule: Rule) -> str:
    """Format a rule as a list item: the change, the form, when and why it applies, its source."""
    first, _, *more = rule.doc.splitlines()
    first = plain(first)
    cut = next(k for k, line in enumerate(more) if "->" in line)
    end = next((k for k in range(cut + 1, len(more)) if re.match(r"\S.*", more[k])), len(more))
    form, reasons = more[:end], plain(" ".join(line.strip() for line in more[end:]))
    kinds = [rule.kind, rule.domain, *(["saturating"] if rule.saturating else [])]
    shown = "\n".join(f"        {line.rstrip()}" for line in form if line.strip())
    return (
        f"- **{rule.name}** ({', '.join(kinds)}): {first}\n\n{shown}\n\n"
        f"    {reasons} *Source: {plain(rule.source)}.*"
    )


def plain(text: str) -> str:
    """Escape the Markdown characters of a text, except within backquotes."""
    pieces = text.split("`")
    return "`".join(re.sub(r"([*_<\[\]|])", r"\\\1", p) if k % 2 == 0 else p for k, p in enumerate(pieces))


def _figures() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FIGURES.read_text())["graphs"]
    return found


def short_table() -> str:
    """Build the table of graphs by the rewrites that an expert would look for."""
    lines = [f"| graph | blocks | {' | '.join(FOUND)} |", f"| --- | --: {'| --: ' * len(FOUND)}|"]
    for name, figures in _figures().items():
        counts = [_found(figures["rules"], pattern) for pattern in FOUND.values()]
        first, _, last = figures["blocks"]
        lines.append(f"| {name} | {first} → {last} | {' | '.join(str(c or '') for c in counts)} |")
    return "\n".join(lines)


def _found(rules: Mapping[str, list[int]], pattern: str) -> int:
    """Count how often rules of these names fired; where none did, at how many places they match."""
    rows = [row for name, row in rules.items() if re.fullmatch(pattern, name)]
    fired = sum(row[1] for row in rows)
    return fired or sum(max(row[2:]) for row in rows)


def full_table() -> str:
    """Build the tables of every graph with every rule that matches somewhere."""
    parts = []
    for name, figures in _figures().items():
        first, second, last = figures["blocks"]
        parts.append(
            f"### {name}\n\nBlocks: {first} as imported, {second} saturated, {last} with operators found again.\n\n"
            "| rule | imported | fired | saturated | found again |\n| --- | --: | --: | --: | --: |\n"
            + "\n".join(
                f"| {rule} | {' | '.join(str(c or '') for c in row)} |"
                for rule, row in sorted(figures["rules"].items())
            )
        )
    return "\n\n".join(parts)


def silent_rules() -> str:
    """Build the table of the rules, per family, that neither match nor fire in any of the graphs."""
    graphs = _figures()
    fired = {name for figures in graphs.values() for name in figures["rules"]}
    silent = [r for r in RULES if r.name not in fired]
    lines = [
        f"Of the {len(RULES)} rules {len(silent)} match at no stage in any of these {len(graphs)} graphs:\n",
        "| family | rules | match in none | these |\n| --- | --: | --: | --- |",
    ]
    for package, files in families():
        own = [r for _, rules in files for r in rules]
        names = [f"`{r.name}`" for r in own if r in silent]
        lines.append(
            f"| {package.__name__.rpartition('.')[2]} | {len(own)} | {len(names) or ''} | {', '.join(names)} |"
        )
    return "\n".join(lines)


def rules_page() -> str:
    """Build the page of all rules."""
    return page(
        "Catalog of rules",
        "tests.docs.rules",
        f"All {len(RULES)} rules, by family. [Rules](../rules.md) explains how a rule is written, applied and tested.",
        catalog(),
    )


def firings_page() -> str:
    """Build the page of the places where rules match and fire."""
    return page(
        "Where rules fire",
        "tests.docs.rules",
        "[Rules](../rules.md#where-rules-fire) explains how these figures are made.",
        "## Rewrites that an expert looks for",
        short_table(),
        "## Rules that match in none of the graphs",
        silent_rules(),
        "## Graph by graph",
        "Per graph and rule: at how many places the rule matches the imported graph; how often it fires while the "
        "graph is saturated and its operators are found again; at how many places it matches the saturated graph; "
        "and at how many it matches when all operators are found again. Rules that match nowhere are left out.",
        full_table(),
    )


PAGES: dict[Path, Callable[[], str]] = {
    FOLDER / "rules.md": rules_page,
    FOLDER / "firings.md": firings_page,
}

if __name__ == "__main__":
    write(PAGES)
