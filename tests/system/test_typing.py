"""Users who run mypy on their own code find misspelled options of this package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")
pytest.importorskip("llama_index.core")

ROOT = Path(__file__).parents[2]

USER_CODE = """\
from llama_index.core import Document
from llama_index.core.retrievers import BaseRetriever

from e2graphrag_integrations import E2GraphRAG, PaperStrategy
from e2graphrag_integrations.llama_index import (
    E2GraphRAGIndex,
    E2GraphRAGRetriever,
    GraphProximitySelector,
)

rag = E2GraphRAG.open("x", chunk_size=300, group_size=4)
index = E2GraphRAGIndex.from_documents(
    [Document(text="x")], embed_model="hashing", llm="extractive", chunk_size=300, use_async=True
)
retriever: BaseRetriever = index.as_retriever("local", similarity_top_k=5, expand="leaves")
engine = index.as_query_engine(response_mode="compact", streaming=True, similarity_top_k=3)
selector = GraphProximitySelector(index, strategy=PaperStrategy())
loaded = E2GraphRAGIndex.from_persist_dir("folder", num_workers=2, show_progress=True)
chat = loaded.as_chat_engine(system_prompt="Be brief.")


async def build() -> E2GraphRAGIndex:
    return await E2GraphRAGIndex.afrom_documents([], show_progress=True, group_size=3)
"""

MISTAKES = {
    'E2GraphRAG.open("x", chunksize=3)': "chunksize",
    'E2GraphRAG.open("x", chunk_size="3")': "chunk_size",
    "E2GraphRAGIndex([], embeding=1)": "embeding",
    "E2GraphRAGIndex.from_documents([], embeding=1)": "embeding",
    'E2GraphRAGIndex.from_documents([], chunk_size="3")': "chunk_size",
    "E2GraphRAGIndex.afrom_documents([], embeding=1)": "embeding",
    'E2GraphRAGIndex.from_e2g("x", embeding=1)': "embeding",
    'E2GraphRAGIndex.from_persist_dir("x", embeding=1)': "embeding",
    "E2GraphRAGIndex.from_storage(index.storage_context, embeding=1)": "embeding",
    "index.as_retriever(kk=5)": "kk",
    "index.as_retriever(similarity_top_k='5')": "similarity_top_k",
    "E2GraphRAGRetriever(index, kk=5)": "kk",
    "GraphProximitySelector(index, kk=5)": "kk",
}


@pytest.mark.slow
def test_mypy_reports_each_misspelled_option_and_nothing_else(tmp_path):
    path = tmp_path / "user.py"
    path.write_text("\n".join([USER_CODE, *MISTAKES]) + "\n", encoding="utf-8")
    first = USER_CODE.count("\n") + 2
    # In the checkout, with its configuration, mypy reuses the cache of `make lint`.
    command = [sys.executable, "-m", "mypy", "--strict", str(path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors: dict[int, str] = {}
    for line, message in re.findall(r"user\.py:(\d+): error: (.*)", run.stdout):
        errors[int(line)] = errors.get(int(line), "") + message
    for line, (code, name) in enumerate(MISTAKES.items(), first):
        assert f'"{name}"' in errors.pop(line, ""), f"{code}\n{run.stdout}{run.stderr}"
    assert errors == {}, run.stdout
