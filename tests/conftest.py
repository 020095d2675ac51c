"""Fixtures that every test may use, and the one figure that is printed rather than asserted: the largest files."""

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.cases import EXAMPLES, QUICK_EXAMPLES, TURN, turn
from tests.project.source import PACKAGES, modules

pytest_plugins = (
    "tests.service.databases",
    "tests.hardware.processes.shared",
    "tests.teg.importers.torch.ranks.recording",
)

# Repeatable everywhere: the same examples on each run; a shared machine's pauses are not failures.
settings.register_profile(
    "project",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    max_examples=EXAMPLES,
)
settings.register_profile("quick", settings.get_profile("project"), max_examples=QUICK_EXAMPLES)


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples of a property where slow tests are left out; take one turn in all processes."""
    os.environ[TURN] = str(turn())
    settings.load_profile("quick" if "not slow" in config.option.markexpr else "project")


def pytest_report_header() -> str:
    return f"rotating cases: {TURN}={turn()}"


def pytest_collection_finish() -> None:
    """Have garbage collected less often, and never among what is loaded by now, which stays to the end.

    At Python's own settings it took a fifth of the time of the quick tests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 10)


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Give logs back their level and handlers after a test: commands set those of the process they run in."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(handler)


@pytest.fixture
def rng() -> np.random.Generator:
    """Build the random number generator of the tests; randomness is an argument."""
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the folder that holds `pyproject.toml`."""
    return Path(__file__).resolve().parent.parent


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = (report for group in terminalreporter.stats.values() for report in group)
    if not any(getattr(report, "nodeid", "").startswith("tests/project/") for report in reports):
        return
    sizes = sorted(((module.lines, module.relative_path) for module in modules(PACKAGES)), reverse=True)
    terminalreporter.write_sep("-", "largest files (lines; sizes are judgment, 400 is the habit)")
    for lines, path in sizes[:5]:
        terminalreporter.write_line(f"{lines:6d}  {path}")
    if sizes:
        terminalreporter.write_line(f"{sizes[len(sizes) // 2][0]:6d}  median of {len(sizes)} files")
