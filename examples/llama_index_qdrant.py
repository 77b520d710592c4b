"""Search in Qdrant: index, persist, reopen as a new process would, search with filters.

    pip install torch --index-url https://download.pytorch.org/whl/cpu   # Linux without a GPU
    pip install -e ".[llama-index,local]" llama-index-vector-stores-qdrant
    python examples/llama_index_qdrant.py

Qdrant runs in this process, in a temporary folder, and warns that payload indexes have no effect
there; to use a server, pass its URL to the client. The index contains texts, trees, graph and
vectors; Qdrant gets a copy of the vectors, which is repaired if it is lost. Without
llama-index-vector-stores-qdrant, the index searches by itself.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from llama_index.core import Document, StorageContext
from llama_index.core.vector_stores import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from e2graphrag_integrations import IndexSettings
from e2graphrag_integrations.llama_index import E2GraphRAGIndex

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"
QUESTION = "What did Filby say about the fourth dimension?"


def chapters(count: int) -> list[Document]:
    """Return the first chapters of the novel with their numbers as metadata."""
    _, *parts = re.split(r"\n [IVX]+\n", NOVEL.read_text(encoding="utf-8"))
    return [
        Document(id_=f"chapter-{number}", text=part, metadata={"chapter": number})
        for number, part in enumerate(parts[:count], 1)
    ]


try:
    from llama_index.vector_stores.qdrant import QdrantVectorStore
    from qdrant_client import QdrantClient
except ModuleNotFoundError:
    print("llama-index-vector-stores-qdrant is not installed: the index searches by itself")
    QdrantVectorStore = None


def open_vector_store(folder: Path) -> BasePydanticVectorStore | None:
    """Open the vector store in a folder; for a server use `QdrantClient(url=...)`."""
    if QdrantVectorStore is None:
        return None
    return QdrantVectorStore("time_machine", client=QdrantClient(path=str(folder / "qdrant")))


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    store = open_vector_store(folder)
    index = E2GraphRAGIndex.from_documents(
        chapters(3),
        storage_context=StorageContext.from_defaults(vector_store=store),
        settings=IndexSettings(chunk_size=300, chunk_overlap=30),
    )
    index.persist(folder / "index")
    count = index.rag.stats().windows
    print(f"{len(index.ref_doc_info)} documents, {count} vectors")
    if store is not None:
        print(f"{store.client.count('time_machine').count} vectors in Qdrant")
        store.client.close()  # Qdrant's local mode allows one client per folder

    store = open_vector_store(folder)
    index = E2GraphRAGIndex.from_persist_dir(folder / "index", vector_store=store)
    late = MetadataFilters(
        filters=[MetadataFilter(key="chapter", value=2, operator=FilterOperator.GTE)]
    )
    for title, filters in (("all chapters", None), ("from chapter 2", late)):
        for mode in ("adaptive", "global"):
            retriever = index.as_retriever(mode, similarity_top_k=2, filters=filters)
            print(f"\n{title}, {mode}: {retriever.explain(QUESTION).reason}")
            for hit in retriever.retrieve(QUESTION):
                text = " ".join(hit.node.get_content().split())
                print(f"  chapter {hit.node.metadata['chapter']}, {hit.score:.2f}: {text[:60]}...")
    if store is not None:
        store.client.close()
