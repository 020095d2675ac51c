"""`tapestry rules`: the rules that change programs and placements, and what runs have learned of them."""

from __future__ import annotations

from argparse import Namespace

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.rules import rules
from tapestry.teg.brief import counted


def run(arguments: Namespace) -> int:
    """List structural rules, then placement rules; or the rates that stored runs have learned."""
    if arguments.learned:
        return _learned(arguments)
    found = rules()
    if arguments.json:
        print_json({"rules": found})
        return OK
    print_table(
        ("rule", "family", "kind", "holds", "what changes"),
        [(rule["name"], rule["family"], rule["kind"], rule["domain"], rule["summary"]) for rule in found],
    )
    return OK


def _learned(arguments: Namespace) -> int:
    from tapestry.service.cli.searching import open_store
    from tapestry.service.learned import learned_document
    from tapestry.service.store import StoreError

    store = open_store(arguments.database_url)
    try:
        document = learned_document(store)
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
    if arguments.json:
        print_json(document)
        return OK
    if not document["rules"]:
        print("nothing has been learned yet: no run of this release is stored")
        return OK
    runs = counted(len({row["snapshot"] for row in document["snapshots"]}), "run")
    print(f"prior {document['prior']}: learned from at least {runs}, moves by credit per thousand applied")
    best = sorted(document["rules"], key=lambda row: (row["mesh_kind"], row["focus"], -row["rate"]))
    print_table(
        ("rule", "operators", "mesh", "objectives", "runs", "applied", "improved", "rate", "hypervolume"),
        [
            (
                *(row["rule"], row["operator_class"], row["mesh_kind"], row["focus"]),
                *(str(row["snapshots"]), f"{row['applied']:,}", f"{row['improved']:,}"),
                *(f"{row['rate']:.2f}", f"{100 * row['volume']:.1f}%"),
            )
            for row in best
        ],
    )
    return OK
