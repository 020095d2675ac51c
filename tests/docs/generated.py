"""Pages that are generated whole, under `docs/generated/`; each says which program writes it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "generated"


def page(title: str, program: str, *parts: str) -> str:
    """Build a page from its title, the program that writes it, and its parts."""
    notice = f"<!-- Written by `python -m {program}`. Do not edit this page. -->"
    return "\n\n".join((notice, f"# {title}", *parts)) + "\n"


def write(pages: Mapping[Path, Callable[[], str]]) -> None:
    """Write every page and say so."""
    for path, build in pages.items():
        path.write_text(build(), encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}: written\n")
