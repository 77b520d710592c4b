"""The files of the page: what its Content-Security-Policy and the report need, and the pictures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import e2graphrag_integrations as package

ROOT = Path(__file__).parents[2]
PAGE = Path(package.__file__).parent / "server" / "web" / "page"
MODULES = sorted([*PAGE.glob("*.js"), *PAGE.glob("messages/*.js")])
HTML = (PAGE / "index.html").read_text(encoding="utf-8")
UNSAFE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\balert\(|"
    r"createContextualFragment|DOMParser|srcdoc|\.cssText|https?://|"
    r"\.replaceWith\("  # it prints null; `clear` and `h` leave it out
)
TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)
MAX_PICTURE = 150_000


def test_index_has_no_inline_code_and_loads_files_that_exist():
    assert not re.search(r"<style|\son\w+=|\sstyle=|javascript:", HTML)
    assert all('src="' in tag for tag in re.findall(r"<script[^>]*>", HTML))
    loaded = re.findall(r'(?:src|href)="(?!#)([^"]+)"', HTML)
    assert loaded
    for path in loaded:
        assert path.startswith("page/")
        assert (PAGE / path.removeprefix("page/")).is_file(), path


@pytest.mark.parametrize("module", MODULES, ids=[path.name for path in MODULES])
def test_modules_are_safe_and_import_in_single_lines(module):
    text = module.read_text(encoding="utf-8")
    assert not UNSAFE.search(text)
    for line in text.splitlines():
        if line.startswith("import "):
            imported = re.fullmatch(
                r'import \{ [\w, ]+ \} from "\./((?:messages/)?\w+\.js)";', line
            )
            assert imported, line
            assert (PAGE / imported[1]).is_file()
        if line.startswith("export "):
            assert re.match(r"export (async )?(function|const|class) \w+", line), line


def test_names_are_unique_over_all_modules():
    homes: dict[str, str] = {}
    for module in MODULES:
        for name in TOP_LEVEL.findall(module.read_text(encoding="utf-8")):
            assert homes.setdefault(name, module.name) == module.name, name


@pytest.mark.parametrize("view", ["ask", "compare", "documents", "graph", "tree"])
def test_screenshots_exist_and_the_documentation_shows_them(view):
    page = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    for width in (1280, 390):
        for theme in ("light", "dark"):
            name = f"images/page_{view}_{width}_{theme}.png"
            assert f"({name})" in page
            assert 0 < (ROOT / "docs" / name).stat().st_size <= MAX_PICTURE
