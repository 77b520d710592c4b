"""Update an index incrementally from an `IngestionPipeline` with upserts.

    pip install torch --index-url https://download.pytorch.org/whl/cpu   # Linux without a GPU
    pip install -e ".[llama-index,local]"
    python examples/llama_index_ingestion.py

Only changed documents are processed again. `insert_nodes` replaces all nodes of a changed document
at once and leaves no trace of the old version in texts, vectors or graph. If your pipeline only
builds trees, you do not need one: `refresh_ref_docs` in the last lines does the same.

The example adds a line about Weena, who is not in these chapters, and removes it again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from llama_index.core import Document
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore

from e2graphrag_integrations import IndexSettings
from e2graphrag_integrations.llama_index import E2GraphRAGIndex, SummaryTreeNodeParser

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"
SIZES = {"chunk_size": 300, "chunk_overlap": 30}  # the same for the pipeline and the index


def report(step: str, index: E2GraphRAGIndex, changed: Sequence[str | None]) -> None:
    """Print the documents that a step processed and the contents of the index after it."""
    nodes = index.docstore.docs.values()
    vectors = index.rag.stats().windows
    mentions = sum("Weena" in node.get_content() for node in nodes)
    print(f"{step}: processed {', '.join(sorted({str(id_) for id_ in changed})) or 'nothing'}")
    counts = f"{len(index.ref_doc_info)} documents, {len(nodes)} nodes, {vectors} vectors"
    print(f"  the index has {counts}; {mentions} of its nodes mention Weena")


_, *chapters = re.split(r"\n [IVX]+\n", NOVEL.read_text(encoding="utf-8"))
texts = [chapter[:4_500] for chapter in chapters[:3]]  # short, to run in seconds
documents = [Document(id_=f"chapter-{n}", text=text) for n, text in enumerate(texts, 1)]
documents[1].set_content(texts[1] + "\nWeena was not there.\n")

pipeline = IngestionPipeline(
    transformations=[SummaryTreeNodeParser(**SIZES)],
    docstore=SimpleDocumentStore(),  # of the pipeline; the index keeps its nodes itself
    docstore_strategy=DocstoreStrategy.UPSERTS,
    vector_store=SimpleVectorStore(),  # stays empty; LlamaIndex does no upserts without one
)
index = E2GraphRAGIndex(nodes := pipeline.run(documents=documents), settings=IndexSettings(**SIZES))
report("first run", index, [node.ref_doc_id for node in nodes])

index.insert_nodes(nodes := pipeline.run(documents=documents))
report("run again", index, [node.ref_doc_id for node in nodes])

documents[1] = Document(id_="chapter-2", text=texts[1])
index.insert_nodes(nodes := pipeline.run(documents=documents))  # replaces the old version
report("chapter 2 changed", index, [node.ref_doc_id for node in nodes])

documents[2] = Document(id_="chapter-3", text=texts[2] + "\nWeena was not there.\n")
refreshed = index.refresh_ref_docs(documents)
changed = [document.id_ for document, new in zip(documents, refreshed, strict=True) if new]
report("chapter 3 refreshed", index, changed)
