"""Hold a conversation: the model rewrites each follow-up question before the search.

    pip install torch --index-url https://download.pytorch.org/whl/cpu   # Linux without a GPU
    pip install -e ".[langchain,local]" langchain-classic
    python examples/langchain_history.py

Runs offline: the packages include all-MiniLM-L6-v2 and a small spaCy pipeline. The chat model is a
stand-in that quotes a sentence; see stand_in_chat_model.py to use your own.
"""

from __future__ import annotations

from pathlib import Path

from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from stand_in_chat_model import answering_model

from e2graphrag_integrations import IndexSettings
from e2graphrag_integrations.langchain import E2GraphRAGIndex

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"
CONVERSATION = [("placeholder", "{chat_history}"), ("user", "{input}")]

text = NOVEL.read_text(encoding="utf-8")[:25_000]
index = E2GraphRAGIndex.from_documents(
    [Document(text, metadata={"source": NOVEL.name})],
    settings=IndexSettings(chunk_size=300, chunk_overlap=30),
)
model = answering_model()
rewrite_prompt = ChatPromptTemplate(
    [("system", "Rewrite the last question so that it needs no context."), *CONVERSATION]
)
answer_prompt = ChatPromptTemplate(
    [("system", "Answer from these passages and cite them:\n\n{context}"), *CONVERSATION]
)
chain = create_retrieval_chain(
    create_history_aware_retriever(model, index.as_retriever(k=3), rewrite_prompt),
    create_stuff_documents_chain(
        model,
        answer_prompt,
        # Chunks and summaries both have these metadata keys.
        document_prompt=PromptTemplate.from_template("[{e2_start}-{e2_end}] {page_content}"),
    ),
)

history: list[BaseMessage] = []
for question in ("Who is Filby?", "Why did he not believe in the Time Machine?"):
    result = chain.invoke({"input": question, "chat_history": history})
    print(f"\n=== {question}\n{result['answer']}")
    for document in result["context"]:
        metadata = document.metadata
        kind = "summary" if metadata["e2_level"] else "chunk"
        span = f"{metadata['e2_start']}-{metadata['e2_end']}"
        print(f"  {kind} of {metadata['source']}, characters {span}")
    history += [HumanMessage(question), AIMessage(result["answer"])]
