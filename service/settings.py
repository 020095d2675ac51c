"""External settings: environment variables, read when requested, overridden by the command line."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from tapestry.teg.faults import near_hint

HOME = "TAPESTRY_HOME"
DATABASE_URL = "TAPESTRY_DATABASE_URL"
HOST = "TAPESTRY_HOST"
PORT = "TAPESTRY_PORT"
API_KEY = "TAPESTRY_API_KEY"
ALLOWED_HOSTS = "TAPESTRY_ALLOWED_HOSTS"
TRUSTED_PROXIES = "FORWARDED_ALLOW_IPS"  # read by uvicorn: addresses whose X-Forwarded-* headers are true
PROXY_SECRET = "TAPESTRY_PROXY_SECRET"
PROXY_HEADERS = {
    "user": "TAPESTRY_PROXY_USER_HEADER",
    "tenant": "TAPESTRY_PROXY_TENANT_HEADER",
    "scope": "TAPESTRY_PROXY_SCOPE_HEADER",
}
FREE_BYTES = "TAPESTRY_FREE_BYTES"
STORED_BYTES = "TAPESTRY_STORED_BYTES"
REQUEST_RATE = "TAPESTRY_REQUESTS_PER_SECOND"
SUBMISSION_RATE = "TAPESTRY_SUBMISSIONS_PER_SECOND"
LOG_FORMAT = "TAPESTRY_LOG_FORMAT"
# What the variables of limits begin with; the rest is the name of a field, such as TAPESTRY_LIMIT_IMPORT_BYTES.
LIMIT, CONNECTION_LIMIT = "TAPESTRY_LIMIT_", "TAPESTRY_CONNECTION_LIMIT_"

LOG_FORMATS = ("json", "text")

SHORTEST_KEY = 16

LimitsT = TypeVar("LimitsT", "Limits", "ConnectionLimits")


class SettingsError(ValueError):
    """Error raised for a setting that cannot be used; the message is one line with the remedy."""


@dataclass(frozen=True)
class Limits:
    """The limits of one request. Sizes in bytes, times in seconds.

    A program of more than `import_bytes`, or that is not read within `import_seconds`, is read by a worker. Jobs of
    one tenant that wait are at most `queued_jobs`, and those of all `all_queued_jobs`. Nothing is taken where the
    disk of a database file has less than `free_bytes` left, or the database of a server takes more than
    `stored_bytes` (None: without end).
    """

    body_bytes: int = 8 * 2**20
    document_bytes: int = 64 * 2**20
    upload_bytes: int = 512 * 2**20
    import_bytes: int = 8 * 2**20
    import_seconds: float = 5.0
    tensor_bytes: int = 256 * 2**20
    graph_blocks: int = 100_000
    explicit_nodes: int = 500_000
    explicit_bytes: int = 256 * 2**20
    run_seconds: float = 3600.0
    run_deadline_seconds: float = 7200.0
    run_evaluations: int = 10**9
    run_islands: int = 64
    queued_jobs: int = 100
    all_queued_jobs: int = 10_000
    free_bytes: int = 256 * 2**20
    stored_bytes: int | None = None


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits on connections to one process of a server, and on the speed of clients. Times in seconds.

    A request's header must arrive within `header_s`, and its body by `body_bytes_per_s` on average, after `body_s`. A
    client that takes nothing of an answer for `answer_s` is cut off. `streams` are open streams of events: fewer than
    the connections of one address, so that others behind the same one are answered, too.
    """

    total: int = 4096
    per_address: int = 2048
    header_s: float = 10.0
    body_s: float = 10.0
    body_bytes_per_s: float = 1024.0
    answer_s: float = 60.0
    streams_per_tenant: int = 1200
    streams: int = 1600


@dataclass(frozen=True)
class ProxyIdentity:
    """The headers by which a proxy names the user of a request, beside the `secret` that only it and the service know.

    Without the header of the tenant a user is of the default one; without that of the scope it may read.
    """

    secret: str = field(repr=False)
    user: str = "X-Tapestry-User"
    tenant: str = "X-Tapestry-Tenant"
    scope: str = "X-Tapestry-Scope"


@dataclass(frozen=True)
class Rates:
    """The requests and submissions that one key may send per second, on average; 0: as many as it likes.

    A key may be ahead of that by what it could have sent in `BURST_S` seconds.
    """

    requests_per_s: float = 500.0
    submissions_per_s: float = 10.0


@dataclass(frozen=True)
class ServiceSettings:
    """The settings of a server, in so many `processes`; it answers to `allowed_hosts` beyond its own address."""

    database_url: str
    host: str = "127.0.0.1"
    port: int = 8000
    processes: int = 1
    api_key: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    limits: Limits = Limits()
    connections: ConnectionLimits = ConnectionLimits()
    proxy: ProxyIdentity | None = None
    rates: Rates = Rates()

    def __post_init__(self) -> None:
        if self.api_key is not None and len(self.api_key) < SHORTEST_KEY:
            raise SettingsError(
                f"{API_KEY} is too short to keep anybody out: at least {SHORTEST_KEY} characters"
            )
        if self.proxy is not None and len(self.proxy.secret) < SHORTEST_KEY:
            raise SettingsError(
                f"{PROXY_SECRET} is too short to keep anybody out: at least {SHORTEST_KEY} characters"
            )

    def require_key(self, has_named: bool) -> None:
        """Check that somebody can be known where others can reach the service: by a key of the settings, one of those
        with names, or a proxy.

        Raises:
            SettingsError: nobody can.
        """
        if self.api_key is None and self.proxy is None and not self.is_loopback and not has_named:
            raise SettingsError(
                f"listening on {self.host} lets others in, so a key is needed: make one (tapestry keys add NAME), "
                f"set {API_KEY} to a secret of at least {SHORTEST_KEY} characters, or listen on 127.0.0.1"
            )

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach the service."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def with_port(self, port: int) -> ServiceSettings:
        return replace(self, port=port)


def home_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the default database: `$TAPESTRY_HOME`, else `~/.local/share/tapestry`."""
    given = environment.get(HOME)
    return Path(given).expanduser() if given else Path.home() / ".local" / "share" / "tapestry"


def database_url(environment: Mapping[str, str], given: str | None = None) -> str:
    """Return the URL of the database: `given`, else `$TAPESTRY_DATABASE_URL`, else a file in the home folder."""
    return given or environment.get(DATABASE_URL) or f"sqlite:///{home_folder(environment) / 'tapestry.db'}"


def log_format(environment: Mapping[str, str], given: str | None = None) -> str:
    """Return the form of logs: `given`, else `$TAPESTRY_LOG_FORMAT`, else JSON.

    Raises:
        SettingsError: it is no known one.
    """
    found = given or environment.get(LOG_FORMAT) or LOG_FORMATS[0]
    if found not in LOG_FORMATS:
        raise SettingsError(f"{LOG_FORMAT} is {' or '.join(LOG_FORMATS)}, not {found!r}")
    return found


def service_settings(
    environment: Mapping[str, str],
    *,
    database_url: str | None = None,
    host: str | None = None,
    port: int | None = None,
) -> ServiceSettings:
    """Read the settings of a server: the arguments, else the environment's, else the default.

    Raises:
        SettingsError: a value that cannot be used.
    """
    return ServiceSettings(
        database_url=_database_url(environment, database_url),
        host=host or environment.get(HOST) or "127.0.0.1",
        port=port if port is not None else _port(environment.get(PORT)),
        api_key=environment.get(API_KEY) or None,
        allowed_hosts=tuple(
            name.strip() for name in environment.get(ALLOWED_HOSTS, "").split(",") if name.strip()
        ),
        limits=replace(
            _limits(environment, LIMIT, Limits()),
            free_bytes=_bytes(environment, FREE_BYTES, Limits.free_bytes) or 0,
            stored_bytes=_bytes(environment, STORED_BYTES, Limits.stored_bytes),
        ),
        connections=_limits(environment, CONNECTION_LIMIT, ConnectionLimits()),
        proxy=_proxy(environment),
        rates=Rates(
            _rate(environment, REQUEST_RATE, Rates.requests_per_s),
            _rate(environment, SUBMISSION_RATE, Rates.submissions_per_s),
        ),
    )


def _proxy(environment: Mapping[str, str]) -> ProxyIdentity | None:
    secret = environment.get(PROXY_SECRET)
    names = {part: environment[name] for part, name in PROXY_HEADERS.items() if environment.get(name)}
    return ProxyIdentity(secret, **names) if secret else None


def _limits(environment: Mapping[str, str], prefix: str, usual: LimitsT) -> LimitsT:
    """Return limits with those of the environment: each has a variable, but for those with one of another name."""
    fields = {
        f"{prefix}{name.upper()}": (name, isinstance(value, int))
        for name, value in asdict(usual).items()
        if f"TAPESTRY_{name.upper()}" not in (FREE_BYTES, STORED_BYTES)
    }
    given: dict[str, Any] = {}
    for variable in sorted(name for name in environment if name.startswith(prefix)):
        if variable not in fields:
            raise SettingsError(f"{variable} is no limit; {near_hint(variable, fields)}")
        name, is_whole = fields[variable]
        given[name] = _limit(variable, environment[variable], is_whole=is_whole)
    return replace(usual, **given)


def _limit(variable: str, text: str, *, is_whole: bool) -> float:
    try:
        value = int(text) if is_whole else float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise SettingsError(f"{variable} is a {'whole ' if is_whole else ''}number above 0, not {text!r}")
    return value


def _bytes(environment: Mapping[str, str], name: str, usual: int | None) -> int | None:
    text = environment.get(name)
    if not text:
        return usual
    if not (text.isascii() and text.isdigit()):
        raise SettingsError(f"{name} is a whole number of bytes, not {text!r}")
    return int(text)


def _rate(environment: Mapping[str, str], name: str, usual: float) -> float:
    text = environment.get(name)
    try:
        rate = usual if not text else float(text)
    except ValueError:
        rate = math.nan
    if not 0 <= rate < math.inf:
        raise SettingsError(f"{name} is a number of at least 0 (0: no limit), not {text!r}")
    return rate


_database_url = database_url


def _port(text: str | None) -> int:
    if text is None:
        return 8000
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise SettingsError(f"{PORT} is a number from 0 to 65535, not {text!r}")
    return int(text)
