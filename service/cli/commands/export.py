"""`tapestry export`: a stored plan in a form for other programs."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from tapestry.service.cli.errors import FAILED, OK, CommandError
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.searching import open_store
from tapestry.service.plan_graphs import ExplicitRefusal, explicit_portions, rewritten_portions
from tapestry.service.plan_programs import PROGRAMS, ProgramRefusal, plan_program, program_values, write_npz
from tapestry.service.plan_tables import FORMS, TableForm, TableRefusal, stored_table
from tapestry.service.store import Store, StoreError, mesh_of
from tapestry.teg.brief import counted
from tapestry.teg.exporters.tables.table import ShardingTable
from tapestry.teg.exporters.tables.verdicts import OK as EXPRESSIBLE
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.sharding.explicit_parts import GraphPart
from tapestry.teg.whole_files import whole_file

TABLES = {form.name: form for form in FORMS}


def run(arguments: Namespace) -> int:
    """Find the plan and write it to the file that was named or to standard output, or say what a table cannot state."""
    form = TABLES.get(arguments.to)
    part = GraphPart(tuple(arguments.device), tuple(arguments.layer), tuple(arguments.block))
    _check_options(arguments, form, part)
    store = open_store(arguments.database_url)
    try:
        if form is not None:
            table = stored_table(store, store.plans.find(arguments.plan))
            if arguments.check:
                return _report(table, form, arguments.json)
            portions: Iterable[str] = (form.write(table, arguments.program),)
        else:
            portions = GRAPHS[arguments.to](store, arguments.plan, part)
        values = None if arguments.weights_output is None else _values(store, arguments)
    except (StoreError, ProgramRefusal, TableRefusal) as error:
        raise CommandError(str(error)) from error
    except ExplicitRefusal as error:
        raise CommandError(f"--{error.option}: {error}" if error.option else str(error)) from error
    except ImportFailure as error:
        raise CommandError(" ".join(str(error).split())) from error
    finally:
        store.close()
    if values is not None:
        _write_values(values, arguments.weights_output)
    _write(portions, arguments.output)
    return OK


def _check_options(arguments: Namespace, form: TableForm | None, part: GraphPart) -> None:
    """Check that the options are for the form.

    Raises:
        CommandError: one is for another form, or the program is missing.
    """
    if not part.is_whole and arguments.to != "teg":
        raise CommandError("--device, --layer and --block are for --to teg; leave them out")
    if form is None and (arguments.check or arguments.json):
        raise CommandError(f"--check is for {', '.join(TABLES)}; leave it and --json out")
    needs_program = form is not None and form.needs_program
    if arguments.program is not None and not needs_program:
        names = ", ".join(other.name for other in FORMS if other.needs_program)
        raise CommandError(f"--program is for --to {names}; leave it out")
    if needs_program and arguments.program is None and not arguments.check:
        raise CommandError(
            f"--to {arguments.to} writes into your program: give its file, --program model.mlir"
        )


def _explicit(store: Store, reference: str, part: GraphPart) -> Iterator[str]:
    plan = store.plans.find(reference)
    mesh = mesh_of(store.runs.request(plan.run_id).mesh)
    return explicit_portions(store.plans.load(plan.key), mesh, part)


def _rewritten(store: Store, reference: str, _: GraphPart) -> Iterator[str]:
    return rewritten_portions(store.plans.load(store.plans.find(reference).key))


def _program(library: str, store: Store, reference: str, _: GraphPart) -> Iterator[str]:
    plan = store.plans.find(reference)
    mesh = mesh_of(store.runs.request(plan.run_id).mesh)
    return iter((plan_program(store.plans.load(plan.key), mesh, library),))


GRAPHS: dict[str, Callable[[Store, str, GraphPart], Iterator[str]]] = {
    "teg": _explicit,
    "rewritten": _rewritten,
    **{library: partial(_program, library) for library in PROGRAMS},
}


def _values(store: Store, arguments: Namespace) -> dict[str, np.ndarray]:
    if arguments.to not in PROGRAMS:
        raise CommandError(f"--weights-output is for programs, --to {', '.join(PROGRAMS)}; leave it out")
    return program_values(store.plans.load(store.plans.find(arguments.plan).key))


def _write_values(values: Mapping[str, np.ndarray], path: str) -> None:
    try:
        with whole_file(Path(path)) as file:
            write_npz(file, values)
    except OSError as error:
        raise CommandError(f"cannot write {path!r}: {error.strerror or error}") from error


def _report(table: ShardingTable, form: TableForm, as_json: bool) -> int:
    """Print the verdicts on the tensors; the exit code says whether all can be placed as the plan does."""
    found = {tensor.name: dict(form.verdicts(table, tensor)) for tensor in table.tensors}
    refused = [
        (name, target, why)
        for name, own in found.items()
        for target, why in own.items()
        if why != EXPRESSIBLE
    ]
    if as_json:
        print_json({"plan": table.plan, "to": form.name, "verdicts": found})
    else:
        if refused:
            print_table(("tensor", "target", "reason"), refused)
        names = len({name for name, _, _ in refused})
        print(f"{names} of {counted(len(found), 'tensor')} cannot be placed as the plan does")
    return FAILED if refused else OK


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
