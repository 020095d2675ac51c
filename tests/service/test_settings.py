"""Tests of the variables of limits."""

from __future__ import annotations

import pytest

from tapestry.service.settings import ConnectionLimits, Limits, SettingsError, service_settings


def test_every_limit_has_a_variable() -> None:
    found = service_settings(
        {
            "TAPESTRY_LIMIT_IMPORT_BYTES": "1000",
            "TAPESTRY_LIMIT_IMPORT_SECONDS": "0.5",
            "TAPESTRY_FREE_BYTES": "7",
            "TAPESTRY_CONNECTION_LIMIT_TOTAL": "3",
        }
    )
    assert found.limits == Limits(import_bytes=1000, import_seconds=0.5, free_bytes=7)
    assert found.connections == ConnectionLimits(total=3)


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        (
            "TAPESTRY_LIMIT_IMPORT_BYTE",
            "1",
            "TAPESTRY_LIMIT_IMPORT_BYTE is no limit; did you mean TAPESTRY_LIMIT_IMPORT_BYTES",
        ),
        ("TAPESTRY_LIMIT_FREE_BYTES", "1", "is no limit"),
        ("TAPESTRY_LIMIT_IMPORT_BYTES", "1.5", "is a whole number above 0, not '1.5'"),
        ("TAPESTRY_LIMIT_IMPORT_BYTES", "0", "is a whole number above 0, not '0'"),
        ("TAPESTRY_LIMIT_IMPORT_SECONDS", "nan", "is a number above 0, not 'nan'"),
        ("TAPESTRY_CONNECTION_LIMIT_HEADER_S", "-1", "is a number above 0, not '-1'"),
    ],
)
def test_a_limit_that_cannot_be_used_is_refused(variable: str, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        service_settings({variable: text})
