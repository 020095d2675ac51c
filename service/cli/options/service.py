"""Options of the commands for the service: servers, workers, the database, and installed plug-ins."""

from __future__ import annotations

import argparse

from tapestry.optimizer.run.options import OPTIONS
from tapestry.service.cli.options.shared import (
    MOST_ISLANDS,
    Parser,
    as_json,
    cluster,
    dims,
    islands,
    logging,
    port,
    quiet,
    run_options,
    store,
)
from tapestry.service.cli.values import above_zero, age, duration, name, quota, size, whole
from tapestry.service.lifecycle import STATUSES
from tapestry.service.run_orders import RUN_ORDERS, SORTS
from tapestry.service.scheduling import HIGHEST, LOWEST, USUAL


def serve(parser: Parser) -> None:
    """Add the options of `serve`: the address to listen on, and its workers."""
    parser.add_argument(
        "--host", metavar="HOST", help="address to listen on (default: $TAPESTRY_HOST, else 127.0.0.1)"
    )
    port(parser)
    parser.add_argument(
        "--processes",
        type=whole(1, 64),
        default=1,
        metavar="N",
        help="processes that answer requests side by side (default: 1)",
    )
    parser.add_argument("--no-worker", action="store_true", help="start no worker; others must run")
    islands(parser)
    _runs(parser)
    store(parser)
    logging(parser)


def worker(parser: Parser) -> None:
    """Add the options of `worker`: its name, its number of processes, and a cluster in place of a database."""
    parser.add_argument(
        "--name", metavar="TEXT", help="name in logs and leases (default: host, process, token)"
    )
    parser.add_argument("--embedded", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--alone",
        action="store_true",
        help="share no islands of runs with other workers, and run none of theirs",
    )
    parser.add_argument(
        "--search-on",
        metavar="ADDRESS",
        help="search the service's runs on the workers of this Dask scheduler, tcp://host:8786 (default: here)",
    )
    cluster(
        parser, "work for searches with --cluster at this Dask scheduler, not for a service: tcp://host:8786"
    )
    islands(parser)
    _runs(parser)
    store(parser)
    logging(parser)


def _runs(parser: Parser) -> None:
    """Add the options for runs side by side."""
    parser.add_argument(
        "--runs",
        type=whole(1, MOST_ISLANDS),
        default=1,
        metavar="N",
        help="runs side by side, which share the cores (default: 1)",
    )
    parser.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="memory of one run with all its processes, such as 8GiB (default: they share 45 %% of the machine's)",
    )


def backup(parser: Parser) -> None:
    """Add the options of `backup`: the file of the copy, or a folder of copies, how often, and how many are kept."""
    parser.add_argument(
        "file", metavar="FILE|FOLDER", help="the copy; or an existing folder for copies named by their time"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument(
        "--every", type=age, metavar="AGE", help="repeat after so long, until asked to end: 1h, 1d"
    )
    parser.add_argument(
        "--keep", type=whole(1), metavar="N", help="keep the newest N copies of FOLDER, and delete older ones"
    )
    store(parser)
    as_json(parser)


CHECKS = (
    *("python", "libraries", "plugins", "tracing", "compiled", "disk", "memory"),
    *("settings", "port", "database"),
)


def doctor(parser: Parser) -> None:
    """Add the options of `doctor`: which check is made."""
    parser.add_argument(
        "--only", choices=CHECKS, metavar="CHECK", help=f"make this check alone: {', '.join(CHECKS)}"
    )
    store(parser)
    as_json(parser)


def restore(parser: Parser) -> None:
    """Add the options of `restore`: the copy, and the empty database that gets its content."""
    parser.add_argument("file", metavar="FILE", help="a copy that `tapestry backup` made")
    store(parser)
    as_json(parser)


def downgrade(parser: Parser) -> None:
    """Add the options of `downgrade`: the version of the tables, and what may be lost on the way back to it."""
    parser.add_argument("version", metavar="VERSION", help="of the tables, such as 0030")
    parser.add_argument(
        "--lose",
        action="append",
        default=[],
        metavar="NAME",
        help="lose this table or TABLE.COLUMN, as a refusal names it; may be repeated",
    )
    store(parser)
    as_json(parser)


def delete(parser: Parser) -> None:
    """Add the options of `delete`: what is deleted."""
    kinds = ("run", "batch", "graph", "execution", "import")
    parser.add_argument("kind", choices=kinds, metavar="KIND", help=f"what is deleted: {', '.join(kinds)}")
    parser.add_argument("ids", nargs="+", metavar="ID", help="whole ids")
    parser.add_argument("--with-runs", action="store_true", help="of a batch: delete its runs, too")
    store(parser)
    as_json(parser)


def priority(parser: Parser) -> None:
    """Add the options of `priority`: the new one, and the runs that get it."""
    parser.add_argument(
        "priority",
        type=whole(LOWEST, HIGHEST),
        metavar="PRIORITY",
        help=f"{LOWEST} to {HIGHEST}; {USUAL} is usual",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="whole ids of runs that have not ended")
    store(parser)
    as_json(parser)


def runs(parser: Parser) -> None:
    """Add the options of `runs`: which ones, and in which order."""
    parser.add_argument(
        "search",
        nargs="?",
        metavar="WORDS",
        help="each is in a name, the id, a tag or the notes (default: all)",
    )
    parser.add_argument("--tag", metavar="TAG", help="only runs with this tag")
    parser.add_argument("--mesh", metavar="NAME", help="only runs on this mesh")
    parser.add_argument("--status", choices=STATUSES, help="only runs that stand so")
    parser.add_argument("--batch", metavar="ID", help="only runs of this batch")
    parser.add_argument(
        "--sort",
        choices=SORTS,
        default="-created",
        metavar="KEY",
        help=f"{', '.join(RUN_ORDERS)}; with - before it, as in --sort=-time, descending (default: -created)",
    )
    parser.add_argument(
        "--limit", type=whole(1, 10_000), default=20, metavar="N", help="how many at most (default: 20)"
    )
    store(parser)
    as_json(parser)


def label(parser: Parser) -> None:
    """Add the options of `label`: tags to add and remove, and notes."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="whole ids of runs")
    parser.add_argument("--tag", action="append", default=[], metavar="TAG", help="add this tag; repeatable")
    parser.add_argument(
        "--untag", action="append", default=[], metavar="TAG", help="remove this tag; repeatable"
    )
    parser.add_argument("--notes", metavar="TEXT", help="replace the notes; an empty text removes them")
    store(parser)
    as_json(parser)


def keys(parser: Parser) -> None:
    """Add the actions of `keys`, each with options of its own."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    add = actions.add_parser("add", help="make a key, and print it once")
    add.add_argument("name", type=name, metavar="NAME", help="what or whom it is for")
    add.add_argument(
        "--scope",
        choices=("read", "submit", "admin"),
        default="submit",
        help="read: look at everything; submit: also ask for runs; admin: also delete (default: submit)",
    )
    add.add_argument(
        "--tenant",
        default="default",
        metavar="TENANT",
        help="whose it is; nobody sees what other tenants have (default: default)",
    )
    add.add_argument(
        "--expires", type=age, metavar="AGE", help="how long it is valid: 90d (default: until revoked)"
    )
    listed = actions.add_parser("list", help="list the keys, without their secrets")
    revoke = actions.add_parser("revoke", help="make a key invalid, and end the sessions that began with it")
    revoke.add_argument("key", metavar="PREFIX|NAME", help="its prefix or name")
    for action in (add, listed, revoke):
        store(action)
        as_json(action)


def tenants(parser: Parser) -> None:
    """Add the actions of `tenants`, each with options of its own."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    listed = actions.add_parser("list", help="list the tenants with their quotas, and what they use")
    shown = actions.add_parser("show", help="show the quotas of a tenant, and what it uses")
    changed = actions.add_parser("set", help="set quotas or the weight of a tenant; what is not named stays")
    for action in (shown, changed):
        action.add_argument(
            "tenant", metavar="TENANT", help="its name; the first that is set makes the tenant"
        )
    changed.add_argument(
        "--jobs",
        type=quota(whole(0)),
        metavar="N",
        help="runs, executions and imports that wait or are under way",
    )
    changed.add_argument("--stored-bytes", type=quota(size), metavar="SIZE", help="what it may store: 10GB")
    changed.add_argument(
        "--search-seconds", type=quota(duration), metavar="SECONDS", help="of search in 24 hours: 36000"
    )
    changed.add_argument(
        "--weight",
        type=above_zero,
        metavar="WEIGHT",
        help="its share of the workers beside that of others: 2 is twice the usual one (1 at first)",
    )
    for action in (listed, shown, changed):
        store(action)
        as_json(action)


def audit(parser: Parser) -> None:
    """Add the options of `audit`: which lines are printed."""
    parser.add_argument(
        "--since", type=age, metavar="AGE", help="only lines that are not older: 7d, 12h (default: all)"
    )
    parser.add_argument("--tenant", metavar="TENANT", help="only lines of this tenant (default: of all)")
    parser.add_argument(
        "--limit", type=whole(1), default=100, metavar="N", help="how many at most, the newest (default: 100)"
    )
    store(parser)
    as_json(parser)


def gc(parser: Parser) -> None:
    """Add the options of `gc`: what is kept, and whether to say only what would be deleted."""
    parser.add_argument(
        "--older-than",
        type=age,
        metavar="AGE",
        help="delete runs and batches that ended, and programs that nothing needs, so long ago: 30d, 12h",
    )
    parser.add_argument(
        "--keep-size",
        type=size,
        metavar="SIZE",
        help="then delete ended runs and batches, the oldest first, until runs take at most this: 10GB",
    )
    parser.add_argument(
        "--audit-older-than",
        type=age,
        metavar="AGE",
        help="delete lines of the audit log that are older: 400d",
    )
    parser.add_argument("--dry-run", action="store_true", help="delete nothing, and print what would be")
    parser.add_argument(
        "--compact", action="store_true", help="give space back to the disk (SQLite; writers wait for it)"
    )
    parser.add_argument(
        "--every", type=age, metavar="AGE", help="repeat after so long, until asked to end: 1h, 1d"
    )
    store(parser)
    as_json(parser)


def submit(parser: Parser) -> None:
    """Add the options of `submit`: the files, the service, and what is asked of it."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="programs; or one batch, BATCH.toml")
    parser.add_argument(
        "--url",
        default="http://127.0.0.1:8000",
        metavar="URL",
        help="the service (default: http://127.0.0.1:8000)",
    )
    parser.add_argument(
        "--key", metavar="TEXT", help="the key of a service that asks for one (default: $TAPESTRY_API_KEY)"
    )
    parser.add_argument(
        "--mesh",
        action="append",
        default=[],
        metavar="NAME|FILE",
        help="a mesh for programs; may be repeated",
    )
    dims(parser)
    run_options(parser, OPTIONS)
    parser.add_argument(
        "--priority",
        type=whole(LOWEST, HIGHEST),
        default=USUAL,
        metavar="P",
        help=f"of the runs that wait, one of a higher priority goes first: {LOWEST} to {HIGHEST} (default: {USUAL})",
    )
    parser.add_argument("--wait", action="store_true", help="wait until all runs have ended")
    quiet(parser)
    as_json(parser)


def rules(parser: Parser) -> None:
    """Add the options of `rules`: whether to list what runs have learned of them."""
    parser.add_argument(
        "--learned", action="store_true", help="what stored runs have learned: rates by class of operator"
    )
    store(parser)
    as_json(parser)


def plugins(parser: Parser) -> None:
    """Add the options of `plugins`: whether to check the properties that plug-ins declare."""
    parser.add_argument(
        "--check", action="store_true", help="try every promise of their operators and rules; takes seconds"
    )
    as_json(parser)
