"""The slow tier of the tests: which cases belong to it, and as many as a time limit allows."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict

import pytest

ABOUT_DATA = frozenset({"store", "snapshot", "indexing", "portability", "retrieval", "search"})
"""Folders whose tests come first if the time is limited: their faults lose or hide documents."""

_LEFT_OUT = "the time limit was reached before this test began"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--time-limit`."""
    parser.addoption(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="run important tests first, and skip those that have not begun after this time",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep the time if there is a limit."""
    limit = config.getoption("time_limit")
    if limit is not None:
        config.pluginmanager.register(TimeLimit(limit), "time-limit")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of tests with the marker `fast_cases` as slow, except for a fixed sample."""
    cases = defaultdict(list)
    for item in items:
        if marker := item.get_closest_marker("fast_cases"):
            cases[item.nodeid.partition("[")[0], marker.args[0]].append(item)
    for (name, count), group in cases.items():
        group.sort(key=lambda item: item.nodeid)
        fast = random.Random(name).sample(group, min(count, len(group)))  # noqa: S311
        for item in group:
            if item not in fast:
                item.add_marker(pytest.mark.slow)


class TimeLimit:
    """Orders the tests by importance, skips those that begin too late, and reports them.

    Args:
        seconds: Time from now after which no test begins.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort the tests; equally important ones keep their random order."""
        items.sort(key=_importance)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Skip a test after the deadline."""
        if time.monotonic() > self._deadline:
            pytest.skip(_LEFT_OUT)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print how many tests of which modules did not run."""
        skipped = [
            report.nodeid.partition("::")[0]
            for report in terminalreporter.getreports("skipped")
            if _LEFT_OUT in report.longreprtext
        ]
        ran = sum(len(terminalreporter.getreports(kind)) for kind in ("passed", "failed"))
        terminalreporter.section(f"time limit of {self._seconds:.0f} seconds")
        terminalreporter.line(f"{ran} tests ran, {len(skipped)} did not")
        for module, count in sorted(Counter(skipped).items()):
            terminalreporter.line(f"not run: {count} of {module}")


def _importance(item: pytest.Item) -> tuple[bool, bool]:
    """Return a key that puts what kills and damages before many examples, and data first."""
    is_property = item.get_closest_marker("hypothesis") is not None
    return is_property, item.path.relative_to(item.config.rootpath).parts[1] not in ABOUT_DATA
