"""`tapestry export`: a stored plan in a form for other programs."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.searching import open_store
from tapestry.service.plan_graphs import ExplicitRefusal, explicit_portions, rewritten_portions
from tapestry.service.store import Store, StoreError, mesh_of
from tapestry.teg.sharding.explicit_parts import GraphPart
from tapestry.teg.whole_files import whole_file


def run(arguments: Namespace) -> int:
    """Find the plan and write it to the file that was named, or to standard output."""
    part = GraphPart(tuple(arguments.device), tuple(arguments.layer), tuple(arguments.block))
    store = open_store(arguments.database_url)
    try:
        portions = FORMATS[arguments.to](store, arguments.plan, part)
    except StoreError as error:
        raise CommandError(str(error)) from error
    except ExplicitRefusal as error:
        raise CommandError(f"--{error.option}: {error}" if error.option else str(error)) from error
    finally:
        store.close()
    _write(portions, arguments.output)
    return OK


def _explicit(store: Store, reference: str, part: GraphPart) -> Iterator[str]:
    plan = store.plans.find(reference)
    mesh = mesh_of(store.runs.request(plan.run_id).mesh)
    return explicit_portions(store.plans.load(plan.key), mesh, part)


def _rewritten(store: Store, reference: str, part: GraphPart) -> Iterator[str]:
    if not part.is_whole:
        raise CommandError("--device, --layer and --block are for --to teg; leave them out")
    return rewritten_portions(store.plans.load(store.plans.find(reference).key))


FORMATS = {"teg": _explicit, "rewritten": _rewritten}


def _write(portions: Iterable[str], path: str | None) -> None:
    if path is None:
        for portion in portions:
            sys.stdout.write(portion)
        return
    try:
        with whole_file(Path(path)) as file:
            for portion in portions:
                file.write(portion.encode())
    except OSError as error:
        raise CommandError(f"cannot write {path!r}: {error.strerror or error}") from error
