"""Cite sources with an LCEL chain: document, character span, route and reasons of each.

    pip install torch --index-url https://download.pytorch.org/whl/cpu   # Linux without a GPU
    pip install -e ".[langchain,local]"
    python examples/langchain_chain.py

Runs offline: the packages include all-MiniLM-L6-v2 and a small spaCy pipeline. The chat model is a
stand-in that quotes a sentence; see stand_in_chat_model.py to use your own.
"""

from __future__ import annotations

from pathlib import Path

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from stand_in_chat_model import answering_model

from e2graphrag_integrations import IndexSettings
from e2graphrag_integrations.langchain import E2GraphRAGIndex

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"
QUESTIONS = (
    "Why did Filby not believe in the Time Machine?",  # two entities in one passage: local
    "What did Filby say?",  # one entity: global search over chunks and summaries
)


def numbered(documents: list[Document]) -> str:
    """Return numbered passages for the prompt."""
    return "\n\n".join(f"[{n}] {d.page_content}" for n, d in enumerate(documents, 1))


text = NOVEL.read_text(encoding="utf-8")[:25_000]  # the first chapters
index = E2GraphRAGIndex.from_documents(
    [Document(text, metadata={"source": NOVEL.name, "author": "H. G. Wells"})],
    settings=IndexSettings(chunk_size=300, chunk_overlap=30),
    # llm=...: a model that writes the summaries; without one they are extracted sentences.
)
retriever = index.as_retriever(k=3, include_scores=True)  # e2_score, e2_found_by, e2_reasons
prompt = ChatPromptTemplate(
    [
        ("system", "Answer from these passages and cite them as [1]:\n\n{context}"),
        ("user", "{question}"),
    ]
)
chain = (
    {"question": RunnablePassthrough(), "documents": retriever}
    | RunnablePassthrough.assign(context=lambda inputs: numbered(inputs["documents"]))
    | RunnablePassthrough.assign(answer=prompt | answering_model() | StrOutputParser())
)

for result in chain.batch(list(QUESTIONS)):
    print(f"\n=== {result['question']}\n{result['answer']}")
    print(f"found by: {result['documents'][0].metadata['e2_found_by']}")
    for number, document in enumerate(result["documents"], 1):
        metadata = document.metadata
        kind = "summary" if metadata["e2_level"] else "chunk"
        place = f"{metadata['source']}, characters {metadata['e2_start']}-{metadata['e2_end']}"
        print(f"[{number}] {kind} of {place}\n    {'; '.join(metadata['e2_reasons'])}")
        print(f"    {document.page_content[:80]!r}...")
