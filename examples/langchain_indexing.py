"""LangChain's `index()` feeds the index page by page; an edited page alone is paid for again.

    pip install -c constraints.txt -e ".[langchain,local]"
    python examples/langchain_indexing.py

The pages of a file have one `source`, so they share a tree. Give pages whole, not cut into chunks:
the index cuts them, and builds once for all that `index()` has changed. To go on in a later process
give `open` a file, and take SQLRecordManager of langchain-classic.

The summaries are a stand-in's; stand_in_chat_model.py says how to put your model in its place.
"""

from __future__ import annotations

from pathlib import Path

from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index
from stand_in_chat_model import answering_model

from e2graphrag_integrations.langchain import E2GraphRAGIndex

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"
PAGE = 2_500  # characters

text = NOVEL.read_text(encoding="utf-8")[:25_000]
pages = [
    Document(text[at : at + PAGE], metadata={"source": NOVEL.name, "page": number})
    for number, at in enumerate(range(0, len(text), PAGE), 1)
]
records = InMemoryRecordManager("novel")
records.create_schema()
novel = E2GraphRAGIndex.open(llm=answering_model(), chunk_size=300, chunk_overlap=30)


def run(what: str, cleanup: str) -> None:
    """Bring the index to what the pages are, and print what that took."""
    counts = index(
        pages, records, novel, cleanup=cleanup, source_id_key="source", key_encoder="sha256"
    )
    done = ", ".join(f"{n} {name.removeprefix('num_')}" for name, n in counts.items())
    print(f"{what}: pages {done}")
    estimated = novel.estimate().llm_calls  # before it is paid
    report = novel.build()  # the first search would do it too
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
page = hit.metadata["page"] or "several"  # None where a passage reaches over pages
print(f"found: page {page}, characters {hit.metadata['e2_start']}-{hit.metadata['e2_end']}")
print(next(line for line in hit.page_content.splitlines() if "Weena" in line))
