"""Headless Chromium and a local server, for tests of the page."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = (
    # The same browser without its windows: a page opens with less than half of the work.
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
)

SIZES = {1280: 900, 390: 844, 1920: 1080}
"""The widths of the page in tests, with their heights."""


def find_chromium() -> str | None:
    """Return the path of an installed Chromium."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def missing_browser() -> str | None:
    """Return what is missing to test the page in a browser, or None."""
    for module in ("playwright", "axe_playwright_python", "starlette", "uvicorn"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    if find_chromium() is None:
        return "there is no Chromium: apt-get install chromium-headless-shell"
    return None


TIMEOUT = 60_000
"""Maximum time of one step in milliseconds; other processes may need the cores."""


class Chromium:
    """One headless browser.

    Playwright's synchronous functions run an event loop in this thread, which would be in the way
    of other tests. It is the running loop only inside of `active`.
    """

    def __init__(self) -> None:
        from playwright.sync_api import expect, sync_playwright

        expect.set_options(timeout=TIMEOUT)
        self._playwright = sync_playwright().start()
        self._loop = asyncio.get_running_loop()
        flags = ["--disable-gpu", "--disable-software-rasterizer"]
        flags += ["--no-sandbox"] if os.geteuid() == 0 else []
        self.browser = self._playwright.chromium.launch(executable_path=find_chromium(), args=flags)
        asyncio._set_running_loop(None)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let Playwright's functions be called."""
        asyncio._set_running_loop(self._loop)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    def close(self) -> None:
        """End the browser."""
        with self.active():
            self.browser.close()
            self._playwright.stop()


NO_SERVER = ("net::ERR_CONNECTION_REFUSED", "net::ERR_CONNECTION_RESET", "net::ERR_EMPTY_RESPONSE")
"""What a page reports after its server stopped. A request to another server breaks its policy."""


@dataclass
class Console:
    """The problems that pages reported.

    Attributes:
        problems: Errors, warnings, dialogs, uncaught exceptions and violations of the
            Content-Security-Policy.
        expected: Statuses of responses that the test provokes; the browser logs each of them. A
            test may stop its server before the pages close, so they may find no server.
    """

    problems: list[str] = field(default_factory=list)
    expected: set[str] = field(default_factory=lambda: set(NO_SERVER))

    def watch(self, page: Any) -> None:
        """Collect the problems of a page."""
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        page.on("console", self._receive)
        page.on("dialog", lambda dialog: (self.problems.append("a dialog"), dialog.dismiss()))

    def _receive(self, message: Any) -> None:
        if message.type not in ("error", "warning"):
            return
        if not any(one in message.text for one in self.expected):
            self.problems.append(f"{message.type}: {message.text}")


@contextmanager
def running_page(app: Any, port: int = 0) -> Iterator[str]:
    """Serve an ASGI application from a thread; yield its URL."""
    import uvicorn

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    config = uvicorn.Config(
        app, log_config=None, ws="none", timeout_graceful_shutdown=1, access_log=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


def axe_source() -> str:
    """Return the script of axe-core."""
    import axe_playwright_python

    return (Path(axe_playwright_python.__path__[0]) / "axe.min.js").read_text(encoding="utf-8")


def watcher() -> str:
    """Return the script that reports texts and labels such as `null` to the console."""
    return Path(__file__).with_name("empty_words.js").read_text(encoding="utf-8")


def recorder() -> str:
    """Return the script that collects the visible controls, and those that a user operates."""
    return Path(__file__).with_name("unused_controls.js").read_text(encoding="utf-8")
