"""The HTML of a report: one script, one style, and blocks of JSON.

The content security policy allows only the scripts and the style with these hashes, and no network.
No text of the index becomes HTML, except for the title, which is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from functools import cache
from importlib import resources
from typing import Any

GENERATOR = '<meta name="generator" content="e2graphrag-integrations report">'
"""An element near the start of each report, by which a report is recognized."""

_MODULES = (
    "messages/en.js",
    "messages/zh.js",
    "i18n.js",
    "dom.js",
    "excerpt.js",
    "reasons.js",
    "links.js",
    "trace.js",
    "answer.js",
    "edits.js",
    "evidence.js",
    "entity_types.js",
    "finder.js",
    "layouts.js",
    "drawing.js",
    "graph.js",
    "document_finder.js",
    "tree.js",
    "report.js",
)
"""The modules of the page that the report uses, each after those that it imports."""

_IMPORT = re.compile(r"^import [^\n]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?(function|class|const|let) )", re.MULTILINE)

_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
"""Characters that could end the element of a block, or a line of a script."""

_VIEWS = {
    "overview": "report.overview",
    "answers": "report.answers",
    "graph": "view.graph",
    "tree": "view.tree",
}
"""The views, and the messages of the page that name them."""

LANGUAGES = ("en", "zh")
"""The languages that a report can be in, those of the page."""

_TAGS = {"en": "en", "zh": "zh-Hans"}


def block(name: str, value: Any) -> str:
    """Return a JSON value as an element that the script reads by its name."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return f'<script type="application/json" id="data-{name}">{text.translate(_ESCAPES)}</script>\n'


def page_start(title: str, start: Any, language: str) -> str:
    """Return the beginning of a report: everything before the blocks that are read later.

    Args:
        title: Title of the file.
        start: The value of the block `start`, which the script reads at once.
        language: One of `LANGUAGES`, in which the script shows everything but texts of the index.
    """
    style, script, library = _style(), _script(), _library()
    policy = (
        f"default-src 'none'; script-src {_hash(script)} {_hash(library)}; "
        f"style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    links = "\n".join(
        f'    <a href="#/{view}" data-view="{view}" data-t="{key}"></a>'
        for view, key in _VIEWS.items()
    )
    sections = "\n".join(
        f'  <section id="view-{view}" class="view" data-t-label="{key}" hidden></section>'
        for view, key in _VIEWS.items()
    )
    # Cytoscape adds a style of its own unless an element has this id.
    return f"""<!doctype html>
<html lang="{_TAGS[language]}">
<head>
<meta charset="utf-8">
{GENERATOR}
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{html.escape(title)}</title>
<style id="__________cytoscape_stylesheet">{style}</style>
</head>
<body>
<a class="skip" id="skip" href="#main" data-t="shell.skip"></a>
<header class="top">
  <div class="brand">
    <span class="brand-name">E2GraphRAG</span>
    <span class="index-name" id="index-name" dir="auto"></span>
  </div>
  <nav class="tabs" data-t-label="shell.views">
{links}
  </nav>
  <div class="tools">
    <label class="theme-label" for="theme" data-t="shell.theme"></label>
    <select id="theme">
      <option value="system" data-t="theme.system"></option>
      <option value="light" data-t="theme.light"></option>
      <option value="dark" data-t="theme.dark"></option>
    </select>
  </div>
</header>
<main id="main" tabindex="-1">
  <noscript>This report needs JavaScript. It uses no network.
    <span lang="zh-Hans">本报告需要启用 JavaScript，不使用网络。</span></noscript>
{sections}
</main>
<div id="announcements" class="visually-hidden" role="status" aria-live="polite"></div>
{block("start", start)}<script>{script}</script>
<script>{library}</script>
"""


PAGE_END = "</body>\n</html>\n"
"""The end of a report, after all blocks."""


@cache
def _asset(name: str) -> str:
    folder = resources.files("e2graphrag_integrations") / "server" / "web" / "page"
    return folder.joinpath(*name.split("/")).read_text(encoding="utf-8")


@cache
def _style() -> str:
    return _asset("style.css") + _asset("graph.css")


@cache
def _script() -> str:
    """Return the modules as one script."""
    parts = [_EXPORT.sub("", _IMPORT.sub("", _asset(name))) for name in _MODULES]
    return f'(() => {{\n"use strict";\n{"".join(parts)}}})();'


@cache
def _library() -> str:
    return _asset("vendor/cytoscape.min.js")


def _hash(text: str) -> str:
    """Return the source expression of an inline script or style."""
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
