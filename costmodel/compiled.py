"""numba's `njit` with a cache of our own: a loop is compiled again when something it inlines has changed, and only
then.

numba keys its cache by the file of a function alone, so that it misses a changed constant of another module. Here
the key is the content that is compiled: byte code, constants and, transitively, every loop and global value used.
Imported by every module with compiled loops.
"""

from __future__ import annotations

import dis
import hashlib
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

from tapestry.teg.stopping import CheckStop, never_stop

# Versions of one loop that are kept beside each other, such as those of two checkouts.
KEPT_VERSIONS = 4


class CompileClock:
    """The seconds spent compiling; a loop that is compiled inside another is counted once."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self._depth, self._since = 0, 0.0

    def begin(self) -> None:
        self._note()
        self._depth += 1

    def end(self) -> None:
        self._note()
        self._depth = max(self._depth - 1, 0)

    def _note(self) -> None:
        now = monotonic()
        if self._depth:
            self.spent_s += now - self._since
        self._since = now


_log = logging.getLogger("tapestry.compiled")
# So much compiling is announced: a few small loops take less, all of a search minutes.
ANNOUNCED_AFTER_S = 3.0
COMPILING = "compiling the search's loops, which takes a few minutes the first time"
_announced: list[bool] = []
_clock = CompileClock()
_checks = threading.local()


def compile_seconds() -> float:
    """Return the seconds that this process has spent compiling loops."""
    return _clock.spent_s


@contextmanager
def stoppable(check_stop: CheckStop) -> Iterator[None]:
    """Call `check_stop` before each loop that numba compiles in this thread while the block runs.

    A loop that is being compiled is finished; the next one is not begun if the check raises.
    """
    before = getattr(_checks, "current", never_stop)
    _checks.current = check_stop
    try:
        yield
    finally:
        _checks.current = before


def cache_folder() -> Path:
    """Return the folder of compiled code: `$TAPESTRY_CACHE`, else the user's cache folder."""
    base = os.environ.get("TAPESTRY_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tapestry" / "loops"


def njit(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles a function with numba's `njit` and these options, and keeps the result."""

    def decorated(function: Any) -> Any:
        dispatcher = numba.njit(**options)(function)
        dispatcher._cache = _LoopCache(function, options)
        return dispatcher

    return decorated


def fingerprint(function: FunctionType, options: Any = None) -> str:
    """Compute a hash of all that compiling a function reads: its code, options, and the globals it uses, transitively.

    Comments, annotations, docstrings and other functions of the same file do not count.

    Raises:
        TypeError: the function uses a global that cannot be hashed by value, such as a module of ours.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for part in _content(function, options, []):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:24]


def _content(function: FunctionType, options: Any, seen: list[FunctionType]) -> Iterator[str]:
    """Yield what a function's machine code depends on, as text; functions met before as their number."""
    if function in seen:
        yield f"function {seen.index(function)}"
        return
    seen.append(function)
    yield repr((function.__qualname__, function.__defaults__, sorted((options or {}).items())))
    yield from _code(function.__code__, function.__doc__)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    used = {name: cell.cell_contents for name, cell in cells}
    used |= {n: function.__globals__[n] for n in _globals(function.__code__) if n in function.__globals__}
    for name, value in sorted(used.items()):
        yield name
        if isinstance(value, Dispatcher):
            yield from _content(value.py_func, value.targetoptions, seen)
        else:
            yield _value(name, value)


def _code(code: CodeType, docstring: str | None = None) -> Iterator[str]:
    """Yield byte code and constants, without the docstring and line numbers."""
    constants = [c for c in code.co_consts if not isinstance(c, CodeType) and (c != docstring or c is None)]
    yield repr((code.co_code, constants, code.co_names, code.co_varnames))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _code(inner)


def _globals(code: CodeType) -> set[str]:
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    inner = [_globals(c) for c in code.co_consts if isinstance(c, CodeType)]
    return names.union(*inner)


def _value(name: str, value: Any) -> str:
    """Format a global by value; what comes from libraries by its name."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, int | float | complex | str | bytes | np.generic | np.dtype | None):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, tuple):
        return f"{type(value).__name__}({', '.join(_value(name, item) for item in value)})"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}"
    if isinstance(value, ModuleType) and value.__name__.partition(".")[0] != "tapestry":
        return value.__name__
    if isinstance(value, BuiltinFunctionType | np.ufunc) or getattr(value, "__module__", "").startswith(
        "num"
    ):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__name__', value)}"
    raise TypeError(f"a compiled loop uses {name!r}, a {type(value).__name__}: import the value itself")


class _Impl(CompileResultCacheImpl):  # type: ignore[misc]
    """The part of numba's cache that turns compiled code into bytes and back; where these lie is decided below."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = _Locator(function.__code__.co_filename)


class _Locator:
    """The folder of compiled loops, by the interface numba expects."""

    def __init__(self, file: str) -> None:
        self._py_file = file

    def ensure_cache_path(self) -> None:
        cache_folder().mkdir(parents=True, exist_ok=True)


class _LoopCache(FunctionCache):  # type: ignore[misc]
    """A cache of one loop's compiled versions, by the fingerprint of what they were compiled from.

    The fingerprint is computed at the first call: until then globals may still be undefined.
    """

    def __init__(self, function: FunctionType, options: Any) -> None:
        self._name, self._py_func, self._options = repr(function), function, options
        self._impl = _Impl(function)
        self._cache_path = str(cache_folder())
        self._stem = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._file: IndexDataCacheFile | None = None
        self.enable()

    @property
    def _cache_file(self) -> IndexDataCacheFile:
        if self._file is None:
            stamp = fingerprint(self._py_func, self._options)
            self._cache_path = str(cache_folder())
            self._file = IndexDataCacheFile(self._cache_path, f"{self._stem}-{stamp}", stamp)
        return self._file

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code of a signature; None where it must be compiled, with a word if that takes long."""
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # of a file that another release wrote, or that was cut short: compiled again
            self.flush()
            found = None
        if found is None:
            getattr(_checks, "current", never_stop)()
            _clock.begin()
            announce(_clock)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled code of a signature; a folder that cannot be written costs time, not the run."""
        _clock.end()
        try:
            super().save_overload(sig, data)
            self._prune()
        except OSError as error:
            _log.debug("compiled code is not kept: %s", error)

    def _prune(self) -> None:
        """Remove all but the newest versions of this loop."""
        indices = Path(self._cache_path).glob(f"{self._stem}-*.nbi")
        for old in sorted(indices, key=lambda path: path.stat().st_mtime)[:-KEPT_VERSIONS]:
            for part in Path(self._cache_path).glob(f"{old.stem}.*"):
                part.unlink(missing_ok=True)


def announce(clock: CompileClock) -> None:
    """Say once, in the process a person looks at, why a first search takes its time; of a moment say nothing."""
    if clock.spent_s > ANNOUNCED_AFTER_S and not _announced:
        if multiprocessing.parent_process() is None:
            _log.warning(COMPILING)
        _announced.append(True)
