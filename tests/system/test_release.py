"""The files of a release agree: version, changelog, citation, and the README on PyPI."""

from __future__ import annotations

import importlib.util
import re
import shutil
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FILES = ("pyproject.toml", "CHANGELOG.md", "CITATION.cff")
LINK = re.compile(r"\]\(([^)\s]+)\)|src(?:set)?=\"([^\"\s]+)\"")
REPOSITORY = "e2graphrag/e2graphrag-integrations"

spec = importlib.util.spec_from_file_location("release", ROOT / ".github" / "release.py")
release = importlib.util.module_from_spec(spec)
spec.loader.exec_module(release)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A copy of the files of a release, ready for version 9.9.0."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    number = PROJECT["project"]["version"]

    def edit(name, pattern, replacement):
        text = (tmp_path / name).read_text(encoding="utf-8")
        edited, count = re.subn(pattern, replacement, text, count=1, flags=re.MULTILINE)
        assert count == 1, (name, pattern)
        (tmp_path / name).write_text(edited, encoding="utf-8")

    edit("pyproject.toml", f'^version = "{re.escape(number)}"', 'version = "9.9.0"')
    edit(
        "CHANGELOG.md", r"^## \[.*$", "## [9.9.0] - 2030-01-02\n\n- New.\n\n## [0.0.1] - 2020-01-01"
    )
    edit("CITATION.cff", f"^version: {re.escape(number)}$", "version: 9.9.0")
    if "date-released" not in (tmp_path / "CITATION.cff").read_text(encoding="utf-8"):
        edit("CITATION.cff", "^version: 9.9.0$", "version: 9.9.0\ndate-released: 2030-01-02")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    return edit


def test_a_release_whose_files_agree_passes(checkout):
    assert release.problems("v9.9.0") == []
    assert release.notes("9.9.0") == "- New."


@pytest.mark.parametrize(
    ("name", "pattern", "replacement", "message"),
    [
        ("pyproject.toml", "^version = .*$", 'version = "9.9.1"', "the tag is v9.9.0"),
        ("CHANGELOG.md", r"^## \[9.*$", "## [Unreleased]", "no section"),
        ("CHANGELOG.md", r"^- New\.$", "", "no section"),
        ("CITATION.cff", "^version: .*$", "version: 9.9.1", "CITATION.cff is not 9.9.0"),
        ("CITATION.cff", "^date-released: .*$", "", "no date-released"),
    ],
)
def test_a_release_whose_files_differ_is_refused(checkout, name, pattern, replacement, message):
    checkout(name, pattern, replacement)
    assert any(message in problem for problem in release.problems("v9.9.0"))


def test_citation_has_the_version_and_the_paper():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {PROJECT['project']['version']}\n" in citation
    assert "arXiv:2505.24226" in citation


def test_readme_on_pypi_has_no_relative_links():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    shown = text
    for one in hook["substitutions"]:
        shown = re.sub(one["pattern"], one["replacement"], shown)
    links = ["".join(groups) for groups in LINK.findall(shown)]
    assert len(links) == len(LINK.findall(text)) > 10
    for link in links:
        assert link.startswith(("https://", "#")), link
        kind = re.match(rf"https://(?:raw\.githubusercontent\.com|github\.com)/{REPOSITORY}/", link)
        if kind and "$HFPR_VERSION/" in link:
            assert (ROOT / link.partition("$HFPR_VERSION/")[2].partition("#")[0]).exists(), link
            is_image = bool(re.search(r"\.(svg|png|jpe?g|gif|webp)$", link))
            assert is_image == ("raw.githubusercontent.com" in link), link
