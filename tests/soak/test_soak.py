"""Tests that a service loses nothing while processes, clocks, disk and database are disturbed, on both databases."""

from __future__ import annotations

import pytest

from tests.soak.soaking import Soak, SoakSettings

SECONDS = 60.0


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_nothing_that_was_acknowledged_or_shown_is_lost(database: str) -> None:
    report = Soak(SoakSettings(database, SECONDS), print).run()
    assert report.faults == []
    assert (report.acknowledged, report.imports) == (30, 6) and report.executions > 0
