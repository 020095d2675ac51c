"""The tables of a run's options in `docs/`, from their descriptions; `python -m tests.docs.options` writes them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from tapestry.optimizer.run.option_fields import Option
from tapestry.optimizer.run.options import OPTIONS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def api_table() -> str:
    """Build the rows of `docs/api.md`: the place of every option in a request."""
    rows = (f"| `{'.'.join(option.path)}` | {_described(option)} |" for option in OPTIONS)
    return "\n".join(["| field | means |", "| --- | --- |", *rows])


def cli_table() -> str:
    """Build the rows of `docs/cli.md`: every option as it is written on the command line."""
    rows = (f"| `{_written(option)}` | {_described(option, option.is_repeated)} |" for option in OPTIONS)
    return "\n".join(["| option | means |", "| --- | --- |", *rows])


def _described(option: Option, is_repeated: bool = False) -> str:
    usual = "" if option.default in (None, (), {}) else f"; default: `{option.text(option.default)}`"
    more = "; may be repeated" if is_repeated else ""
    return (option.description + usual + more).replace("|", "\\|")


def _written(option: Option) -> str:
    return f"{option.flag} {option.metavar}".replace("|", "\\|")


PAGES: dict[Path, Callable[[], str]] = {DOCS / "api.md": api_table, DOCS / "cli.md": cli_table}


def with_table(text: str, table: Callable[[], str]) -> str:
    """Return the page with its table of options regenerated."""
    marked = re.compile(r"(<!-- options of a run -->\n).*?(<!-- end of options of a run -->)", re.DOTALL)
    return marked.sub(lambda m: f"{m[1]}\n{table()}\n\n{m[2]}", text)


if __name__ == "__main__":
    for page, table in PAGES.items():
        page.write_text(with_table(page.read_text(), table))
        sys.stdout.write(f"{page}: written\n")
