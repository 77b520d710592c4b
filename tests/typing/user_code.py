"""Code of a user. mypy checks it in `make lint`: correct calls pass, misspelled options are errors.

An ignore on a line without an error is itself an error, so each ignore is a mistake that mypy must
find.
"""

from __future__ import annotations

from pathlib import Path

from llama_index.core import Document
from llama_index.core.retrievers import BaseRetriever

from e2graphrag_integrations import E2GraphRAG, IndexSettings, PaperStrategy, WriteOptions
from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex
from e2graphrag_integrations.llama_index import (
    E2GraphRAGIndex,
    E2GraphRAGRetriever,
    GraphProximitySelector,
)

rag = E2GraphRAG.open("x", settings=IndexSettings(chunk_size=300, group_size=4))
index = E2GraphRAGIndex.from_documents(
    [Document(text="x")], embed_model="hashing", llm="extractive", chunk_size=300, use_async=True
)
retriever: BaseRetriever = index.as_retriever("local", similarity_top_k=5, expand="leaves")
engine = index.as_query_engine(response_mode="compact", streaming=True, similarity_top_k=3)
selector = GraphProximitySelector(index, strategy=PaperStrategy())
readers = [
    E2GraphRAGRetriever(rag, similarity_top_k=5),
    E2GraphRAGRetriever(rag.scoped({"tenant": "a"})),
    E2GraphRAGRetriever(index.scoped({"tenant": "a"})),
    E2GraphRAGRetriever(LangChainIndex.open("x")),
    E2GraphRAGRetriever(Path("x.e2g")),
    E2GraphRAGRetriever("postgresql://localhost/db?schema=x"),
]
loaded = E2GraphRAGIndex.from_persist_dir(
    "folder", writes=WriteOptions(concurrency=2), show_progress=True
)
chat = loaded.as_chat_engine(system_prompt="Be brief.")


async def build() -> E2GraphRAGIndex:
    """Build an index asynchronously."""
    return await E2GraphRAGIndex.afrom_documents(
        [], show_progress=True, settings=IndexSettings(group_size=3)
    )


def make_mistakes() -> None:
    """Misspell an option in each call, or give it a value of another type."""
    E2GraphRAG.open("x", chunksize=3)  # type: ignore[call-arg] # misspelled
    E2GraphRAG.open("x", chunk_size="3")  # type: ignore[arg-type] # not a number
    E2GraphRAGIndex([], embeding=1)  # type: ignore[call-arg] # misspelled
    E2GraphRAGIndex.from_documents([], embeding=1)  # type: ignore[call-arg] # misspelled
    E2GraphRAGIndex.from_documents([], chunk_size="3")  # type: ignore[arg-type] # not a number
    _ = E2GraphRAGIndex.afrom_documents([], embeding=1)  # type: ignore[call-arg] # misspelled
    E2GraphRAGIndex.open("x", embeding=1)  # type: ignore[call-arg] # misspelled
    E2GraphRAGIndex.from_persist_dir("x", embeding=1)  # type: ignore[call-arg] # misspelled
    E2GraphRAGIndex.from_storage(index.storage_context, embeding=1)  # type: ignore[call-arg] # misspelled
    index.as_retriever(kk=5)  # type: ignore[call-arg] # misspelled
    index.as_retriever(similarity_top_k="5")  # type: ignore[arg-type] # not a number
    E2GraphRAGRetriever(index, kk=5)  # type: ignore[call-arg] # misspelled
    E2GraphRAGRetriever([index])  # type: ignore[arg-type] # not an index
    GraphProximitySelector(index, kk=5)  # type: ignore[call-arg] # misspelled
