"""Write docs/images/page_{view}_{width}_{theme}.png: the page of `e2graphrag serve`.

Usage: `make screenshots`, or `.venv/bin/python docs/images/screenshots.py time_machine.e2g` with
the demo's index. It needs Chromium.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parent
WIDE, NARROW = 1280, 390
SIZES = {WIDE: 900, NARROW: 844}
COLORS = 128
TIMEOUT = 180_000
"""Milliseconds that a step may take."""

QUESTION = "Why+did+Filby+not+believe+in+the+Time+Machine%3F"
ADDRESSES = {
    "ask": f"#/ask?q={QUESTION}&a.k=5",
    "compare": f"#/ask?q={QUESTION}&compare=1&a.k=5&b.k=5&b.mode=local&answers=argumentative",
    "documents": "#/documents",
    "graph": "#/graph?entity=weena",
    "tree": "#/tree?document=the_time_machine.txt",
}
READY = {
    "ask": ".hit",
    "compare": '[data-setting="B"] .hit',
    "documents": "#index",
    "graph": "#view-graph canvas",
    "tree": "#view-tree h2",
}
START = {
    ("compare", WIDE): "#answers",
    ("compare", NARROW): "#answers",
    ("graph", NARROW): "#view-graph .graph-main",
}
"""Elements at the top of the picture, if not the top of the page."""

NOTE = {
    "name": "notes.md",
    "mimeType": "text/markdown",
    "buffer": b"# Notes\n\nThe Time Traveller left Richmond. " * 40,
}


@contextmanager
def served(index: Path) -> Iterator[str]:
    """Serve an index; yield the URL."""
    command = [sys.executable, "-m", "e2graphrag_integrations.cli", "serve", str(index)]
    server = subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None  # noqa: S101 - for the type
        for line in server.stderr:
            if "serving at " in line:
                yield line.split()[-1]
                return
        raise SystemExit("the server did not start")
    finally:
        server.terminate()
        server.wait()


def write_picture(page: Any, path: Path) -> None:
    """Save a screenshot with a palette, which needs a third of the space."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)


def warm_up(browser: Any, url: str) -> None:
    """Ask a question, so that the time in the pictures is not that of loading the models."""
    page = browser.new_page()
    page.goto(url + ADDRESSES["ask"])
    page.locator(READY["ask"]).first.wait_for(timeout=TIMEOUT)
    page.close()


def take(browser: Any, url: str) -> None:
    """Take all screenshots."""
    for width, height in SIZES.items():
        for theme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=theme,
                reduced_motion="reduce",
            )
            context.set_default_timeout(TIMEOUT)
            for view, address in ADDRESSES.items():
                page = context.new_page()
                page.goto(url + address)
                if view == "documents":
                    page.locator("#upload").set_input_files(NOTE)
                page.locator(READY[view]).first.wait_for()
                page.wait_for_load_state("networkidle")
                if (view, width) in START:
                    page.locator(START[view, width]).evaluate("one => one.scrollIntoView()")
                write_picture(page, FOLDER / f"page_{view}_{width}_{theme}.png")
                page.close()
            context.close()


def main() -> None:
    """Write the pictures."""
    names = ("chromium", "chromium-headless-shell", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        raise SystemExit("there is no Chromium: apt-get install chromium")
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        index = Path(folder) / "time_machine.e2g"
        if len(sys.argv) > 1:
            shutil.copy(sys.argv[1], index)
        else:
            command = [sys.executable, "-m", "e2graphrag_integrations.cli", "demo"]
            subprocess.run([*command, "--out", str(index)], check=True)
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        with served(index) as url:
            warm_up(browser, url)
            take(browser, url)
        browser.close()


if __name__ == "__main__":
    main()
