"""An `IngestionPipeline` with upserts feeds the index; a changed document alone is made anew.

    pip install -c constraints.txt -e ".[llama-index,local]"
    python examples/llama_index_ingestion.py

Nodes of a changed document take the place of its old version in one step, and nothing of that is
left in docstore, vectors or graph. Where a pipeline does nothing but build trees none is needed:
the last lines do the same with `refresh_ref_docs`.

To see it, a line with Weena, who comes into the novel later, is put into chapters and taken out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from llama_index.core import Document
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore

from e2graphrag_integrations.llama_index import E2GraphRAGIndex, SummaryTreeNodeParser

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"
SIZES = {"chunk_size": 300, "chunk_overlap": 30}  # for the pipeline and, later, the index itself


def told(what: str, index: E2GraphRAGIndex, changed: Sequence[str | None]) -> None:
    """Print which documents were made anew, and what the index holds now."""
    held = index.docstore.docs.values()
    vectors = len(index.storage_context.vector_store.to_dict()["embedding_dict"])
    traces = sum("Weena" in node.get_content() for node in held)
    print(f"{what}: made anew {', '.join(sorted({str(id_) for id_ in changed})) or 'nothing'}")
    count = f"{len(index.ref_doc_info)} documents, {len(held)} nodes, {vectors} vectors"
    print(f"  the index has {count}; {traces} of its nodes name Weena")


_, *parts = re.split(r"\n [IVX]+\n", NOVEL.read_text(encoding="utf-8"))
documents = [Document(id_=f"chapter-{n}", text=part) for n, part in enumerate(parts[:3], 1)]
documents[1].set_content(documents[1].get_content() + "\nWeena was not there.\n")

pipeline = IngestionPipeline(
    transformations=[SummaryTreeNodeParser(**SIZES)],
    docstore=SimpleDocumentStore(),  # its own: it knows documents, not the nodes of the index
    docstore_strategy=DocstoreStrategy.UPSERTS,
    vector_store=SimpleVectorStore(),  # stays empty; without one LlamaIndex does no upserts
)
index = E2GraphRAGIndex(nodes := pipeline.run(documents=documents), **SIZES)
told("first run", index, [node.ref_doc_id for node in nodes])

index.insert_nodes(nodes := pipeline.run(documents=documents))
told("run again", index, [node.ref_doc_id for node in nodes])

documents[1] = Document(id_="chapter-2", text=parts[1])
index.insert_nodes(nodes := pipeline.run(documents=documents))  # replaces
told("chapter 2 changed", index, [node.ref_doc_id for node in nodes])

documents[2] = Document(id_="chapter-3", text=parts[2] + "\nWeena was not there.\n")
done = index.refresh_ref_docs(documents)
told("chapter 3 refreshed", index, [d.id_ for d, new in zip(documents, done, strict=True) if new])
