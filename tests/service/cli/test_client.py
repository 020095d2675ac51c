"""Tests of the client of the service where its library is missing."""

import sys

import pytest

from tapestry.service.cli.client import Client
from tapestry.service.cli.errors import CommandError


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(
        CommandError, match=r"httpx, which is not installed: pip install 'tapestry\[client\]'"
    ):
        Client("http://127.0.0.1:8000")
