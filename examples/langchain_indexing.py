"""Keep an index up to date with LangChain's `index()`: an edited page costs only a few LLM calls.

    pip install torch --index-url https://download.pytorch.org/whl/cpu   # Linux without a GPU
    pip install -e ".[langchain,local]"
    python examples/langchain_indexing.py

The pages of a file have the same `source`, so they share a summary tree. Pass complete pages, not
chunks: the index splits them, and one build indexes all changes of `index()`. To continue in a
later process, pass a path to `open` and use the SQLRecordManager of langchain-classic.

Runs offline: the chat model is a stand-in; see stand_in_chat_model.py to use your own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index
from stand_in_chat_model import answering_model

from e2graphrag_integrations import IndexSettings
from e2graphrag_integrations.langchain import E2GraphRAGIndex

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"
PAGE_SIZE = 2_500  # characters

text = NOVEL.read_text(encoding="utf-8")[:25_000]
pages = [
    Document(text[start : start + PAGE_SIZE], metadata={"source": NOVEL.name, "page": number})
    for number, start in enumerate(range(0, len(text), PAGE_SIZE), 1)
]
records = InMemoryRecordManager("novel")
records.create_schema()
# Writes build the index, but here they only store pages, so that the cost is known beforehand.
novel = E2GraphRAGIndex.open(
    llm=answering_model(),
    settings=IndexSettings(chunk_size=300, chunk_overlap=30),
    auto_build=False,
)


def run(title: str, cleanup: Literal["incremental", "scoped_full"]) -> None:
    """Update the index to the current pages and print the cost."""
    counts = index(
        pages, records, novel, cleanup=cleanup, source_id_key="source", key_encoder="sha256"
    )
    changes = ", ".join(f"{n} {name.removeprefix('num_')}" for name, n in counts.items())
    print(f"{title}: pages {changes}")
    estimated = novel.estimate().llm_calls  # calls no model
    report = novel.build()
    print(f"  LLM calls: {estimated} estimated, {report.llm_calls} made")
    print(f"  written: {report.chunks} chunks, {report.summaries} summaries")
    print(f"  the index has {len(novel.ids())} pages")


run("first run", "incremental")
run("run again", "incremental")
pages[5].page_content += "\nWeena was not there.\n"
run("page 6 edited", "incremental")
pages.pop()
run("last page gone", "scoped_full")

[hit] = novel.as_retriever(k=1).invoke("Was Weena there?")
page = hit.metadata["page"] or "several"  # None if a passage spans several pages
print(f"found: page {page}, characters {hit.metadata['e2_start']}-{hit.metadata['e2_end']}")
print(next(line for line in hit.page_content.splitlines() if "Weena" in line))
