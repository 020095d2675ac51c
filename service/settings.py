"""Where Tapestry keeps its things: environment variables, read when asked for, and what they default to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

HOME = "TAPESTRY_HOME"
DATABASE_URL = "TAPESTRY_DATABASE_URL"


def home_folder(environment: Mapping[str, str]) -> Path:
    """The folder of the default database: `$TAPESTRY_HOME`, else `~/.local/share/tapestry`."""
    given = environment.get(HOME)
    return Path(given).expanduser() if given else Path.home() / ".local" / "share" / "tapestry"


def database_url(environment: Mapping[str, str], given: str | None = None) -> str:
    """The database to use: the one `given`, else `$TAPESTRY_DATABASE_URL`, else a file in the home folder."""
    return given or environment.get(DATABASE_URL) or f"sqlite:///{home_folder(environment) / 'tapestry.db'}"
