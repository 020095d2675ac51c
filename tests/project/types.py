"""Strict type checking of the package: `python -m tests.project.types` runs mypy and counts what it has checked.

mypy that follows a wrong path reports success over one file, so it must count all sources
(and it counts folders of data, too).
"""

from __future__ import annotations

import re
import subprocess
import sys

from tests.project.source import PACKAGES, ROOT, modules

CHECKED = re.compile(r"(?:checked|in) (\d+) source files")


def main() -> int:
    """Run mypy; return its exit status, or 1 if it left out a source file."""
    command = [sys.executable, "-m", "mypy", "--strict", "-p", "tapestry"]
    answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    print(answer.stdout, end="")
    if answer.returncode:
        return answer.returncode
    expected = len(modules((*PACKAGES, "examples"))) + 1  # `tapestry/__init__.py` itself
    found = CHECKED.search(answer.stdout)
    if found is None or int(found[1]) < expected:
        print(f"types: at least {expected} source files must be checked", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
