"""Tests of the checks of a soak's databases: a failed check is a fault, one that cannot be made is none."""

from __future__ import annotations

import pytest

from tests.soak.databases import amcheck_faults

MISSING = [
    'pg_amcheck: error: query failed: ERROR:  extension "amcheck" is not available\n'
    "DETAIL:  Could not open extension control file.\n",
    'pg_amcheck: error: query failed: ERROR:  could not open extension control file "/x/amcheck.control"\n',
    'pg_amcheck: warning: skipping database "soak": amcheck is not installed\n'
    "pg_amcheck: error: no relations to check\n",
]
BROKEN = [
    "pg_amcheck: error: connection to server failed: Connection refused\n",
    "pg_amcheck: error: query failed: server closed the connection unexpectedly\n",
    'pg_amcheck: error: could not read: installed "amcheck" is too old\n',
]
CORRUPT = "heap table 'soak.public.runs', block 3, offset 2: xmin 7 precedes relation freeze threshold\n"


@pytest.mark.parametrize("errors", MISSING)
def test_a_missing_extension_is_no_fault_but_what_was_found_is(errors: str) -> None:
    assert amcheck_faults(1, "", errors) == []
    assert amcheck_faults(2, CORRUPT, errors) == [f"pg_amcheck ended with 2: {CORRUPT}{errors}"]


@pytest.mark.parametrize("errors", BROKEN)
def test_a_check_that_failed_is_a_fault(errors: str) -> None:
    assert amcheck_faults(1, "", errors) == [f"pg_amcheck ended with 1: {errors}"]


def test_a_sound_database_has_no_fault() -> None:
    assert amcheck_faults(0, "", "") == []
    assert amcheck_faults(2, CORRUPT, "") != []
