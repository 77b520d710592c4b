"""A whole novel, persisted in one process and loaded in another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
NOVEL = SHARED / "data" / "novels" / "pride_and_prejudice.txt"

QUESTIONS = """
import json, sys
QUESTIONS = [
    "What does Mr. Darcy think of Elizabeth Bennet?",
    "Why did Wickham elope with Lydia?",
    "How did they get there so quickly?",
    "Who is Lady Catherine?",
]
def answers(index):
    return [
        [(n.node_id, n.score, n.node.start_char_idx, n.text) for n in retriever.retrieve(question)]
        for mode in ("adaptive", "local", "global")
        for retriever in [index.as_retriever(mode, similarity_top_k=8)]
        for question in QUESTIONS
    ]
"""
WRITE = """
from pathlib import Path
from llama_index.core import Document
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
text = Path(sys.argv[1]).read_text(encoding="utf-8")
index = E2GraphRAGIndex.from_documents([Document(id_="novel", text=text)], embed_model=sys.argv[3])
index.storage_context.persist(sys.argv[2])
print(json.dumps(answers(index)))
"""
LOAD = """
from llama_index.core import StorageContext, load_index_from_storage
import e2graphrag_integrations.llama_index
context = StorageContext.from_defaults(persist_dir=sys.argv[2])
print(json.dumps(answers(load_index_from_storage(context))))
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", QUESTIONS + code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]  # older versions print that they load


@pytest.mark.shared
def test_a_novel_answers_the_same_in_the_process_that_loads_it(tmp_path):
    if not NOVEL.exists():
        pytest.skip("needs ../shared beside the checkout")
    made = run(WRITE, str(NOVEL), str(tmp_path / "store"), "hashing")
    assert made == run(LOAD, str(NOVEL), str(tmp_path / "store"))
    assert len(made) > 10_000
