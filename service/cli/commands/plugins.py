"""`tapestry plugins`: the additions of installed plug-ins, and the parts that were left out and why."""

from __future__ import annotations

import logging
from argparse import Namespace

import numpy as np

from tapestry.service.cli.errors import FAILED, OK
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.plugins import checked, document, plug_ins
from tapestry.teg.plugins import log


def run(arguments: Namespace) -> int:
    """List plug-ins, then their faults; with --check, test the declared properties of rules and operators too."""
    log.setLevel(logging.ERROR)  # the faults are printed below
    found = checked(np.random.default_rng(0)) if arguments.check else plug_ins()
    code = FAILED if arguments.check and any(plug_in.faults for plug_in in found) else OK
    if arguments.json:
        print_json({"plugins": [document(plug_in) for plug_in in found]})
        return code
    if not found:
        print("No plug-ins are installed.")
        return code
    rows = [(str(p), p.group, p.name, ", ".join(p.members) or "-", str(len(p.faults))) for p in found]
    print_table(("distribution", "group", "entry point", "adds", "faults"), rows, right=(4,))
    for plug_in in found:
        for fault in plug_in.faults:
            print(f"\n{plug_in}, {plug_in.group} {plug_in.name!r} ({plug_in.value})")
            print(f"  {fault.member + ': ' if fault.member else ''}{fault.message}\n  hint: {fault.hint}")
    return code
