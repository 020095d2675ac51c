"""A script that runs the cases of vector files, `python -m tests.vectors FILE...`; exit 1 if one fails."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.vectors.adapters import ADAPTERS
from tests.vectors.runner import disputes, load, run


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.vectors", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--kinds", nargs="+", metavar="KIND", help="run these kinds only")
    parser.add_argument("--skip", nargs="+", default=[], metavar="KIND", help="leave these kinds out")
    given = parser.parse_args(arguments)
    try:
        cases = [case for path in given.files for case in load(path)]
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    kept = [c for c in cases if (not given.kinds or c["kind"] in given.kinds) and c["kind"] not in given.skip]
    known, counts = disputes(), Counter()
    for case in kept:
        verdict = run(case, ADAPTERS, known)
        counts[verdict.outcome] += 1
        if verdict.outcome != "passed":
            print(f"{verdict.outcome} {verdict.id} ({case['kind']})")
            print(f"  expected {json.dumps(verdict.expected)}")
            print(
                f"  {'proof' if verdict.outcome == 'disputed' else 'actual'}   {json.dumps(verdict.actual)}"
            )
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['disputed']} disputed")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
