"""The figures of the documentation show the indexes that their script builds."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MAX_BYTES = 100_000


@pytest.mark.slow
def test_committed_figures_are_those_that_make_figures_draws(monkeypatch, real_embedder):
    monkeypatch.syspath_prepend(IMAGES)
    drawn = importlib.import_module("figures").figures(real_embedder)
    for name, svg in drawn.items():
        assert (IMAGES / name).read_text(encoding="utf-8") == svg, f"{name}: run `make figures`"
        assert len(svg.encode()) < MAX_BYTES
