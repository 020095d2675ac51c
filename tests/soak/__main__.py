"""`python -m tests.soak`: disturb a service for some minutes on both databases, and say what did not hold."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.soak.soaking import Soak, SoakReport, SoakSettings

DATABASES = ("sqlite", "postgresql")
MINUTES = 3.0
RUNS, KILLS = 30, 25  # in three minutes of both databases


def main() -> int:
    """Run the soaks that the command line names; return 1 if something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for how long in all (default: 3)")
    parser.add_argument("--seed", type=int, default=0, help="of the order of disturbances (default: 0)")
    parser.add_argument("--database", choices=(*DATABASES, "both"), default="both")
    parser.add_argument(
        "--at-once", action="store_true", help="both databases side by side, each for the whole time"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    kinds = DATABASES if arguments.database == "both" else (arguments.database,)
    scale = max(arguments.minutes / MINUTES, 1 / 3)
    share = 1 if arguments.at_once else len(kinds)
    settings = [
        SoakSettings(
            kind,
            seconds=60 * arguments.minutes / share,
            runs=round(RUNS * scale),
            kills=round(KILLS * scale),
            seed=arguments.seed,
        )
        for kind in kinds
    ]

    def soak(one: SoakSettings) -> SoakReport:
        return Soak(one, lambda line: print(line, file=sys.stderr, flush=True)).run()

    with ThreadPoolExecutor(len(kinds) if arguments.at_once else 1) as pool:
        reports = list(pool.map(soak, settings))
    if arguments.json:
        print(json.dumps([report.document() for report in reports], indent=2))
    for report in () if arguments.json else reports:
        print(f"{report.database}: {report.document()}")
    return 1 if any(report.faults for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
