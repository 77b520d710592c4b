"""The texts for LlamaHub and LangChain's documentation: their snippets run, their links exist."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTINGS = ROOT / "docs" / "maintainers"
FILES = ["llamahub_readme.md", "langchain_provider.mdx", "langchain_retriever.mdx"]


@pytest.mark.parametrize("file", FILES)
def test_snippets_of_a_listing_run_in_their_order(file, tmp_path, monkeypatch, capsys):
    pytest.importorskip("llama_index.core" if file.startswith("llama") else "langchain_openai")
    if "retriever" in file:
        from langchain_core.language_models import FakeListChatModel

        model = FakeListChatModel(responses=["A map."])
        monkeypatch.setattr("langchain_openai.ChatOpenAI", lambda **_: model)
    monkeypatch.chdir(tmp_path)
    text = (LISTINGS / file).read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    exec(compile(code, file, "exec"), {"__name__": "listing"})  # noqa: S102 - our own texts
    assert "provider" in file or "Bob gave Alice a map" in capsys.readouterr().out


def test_listings_install_extras_that_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for path in LISTINGS.iterdir():
        for names in re.findall(r"e2graphrag-integrations\[([\w,-]+)\]", path.read_text("utf-8")):
            assert set(names.split(",")) <= set(extras["optional-dependencies"])


def test_llamahub_metadata_names_classes_that_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hub = project["tool"]["llamahub"]
    pytest.importorskip("llama_index.core")
    module = importlib.import_module(hub["import_path"])
    assert set(hub["class_authors"]) <= set(module.__all__)
