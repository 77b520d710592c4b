"""Cite sources with a query engine: document, character span, route and reasons of each.

    pip install torch --index-url https://download.pytorch.org/whl/cpu   # Linux without a GPU
    pip install -e ".[llama-index,local]"
    python examples/llama_index_query_engine.py

Runs offline: the packages include all-MiniLM-L6-v2 and a small spaCy pipeline. The LLM is a
stand-in that quotes a sentence; see stand_in_llm.py to use your own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llama_index.core import Document
from llama_index.core.bridge.pydantic import Field
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.query_engine import CitationQueryEngine
from stand_in_llm import answering_llm

from e2graphrag_integrations import IndexSettings
from e2graphrag_integrations.llama_index import E2GraphRAGIndex, E2RoutingEvent

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"
QUESTIONS = (
    "Why did Filby not believe in the Time Machine?",  # two entities in one passage: local
    "What did Filby say?",  # one entity: global search over chunks and summaries
)


class Routes(BaseEventHandler):
    """Collects the route of each question."""

    events: list[E2RoutingEvent] = Field(default_factory=list)

    def handle(self, event: Any, **_: Any) -> None:
        """Keep the routing events of LlamaIndex's instrumentation."""
        if isinstance(event, E2RoutingEvent):
            self.events.append(event)


text = NOVEL.read_text(encoding="utf-8")[:18_000]  # two chapters, to run in seconds
index = E2GraphRAGIndex.from_documents(
    [Document(id_="the_time_machine.txt", text=text, metadata={"author": "H. G. Wells"})],
    settings=IndexSettings(chunk_size=300, chunk_overlap=30),
    # Pass llm=... to write summaries with an LLM; by default they quote the best sentences.
)
engine = CitationQueryEngine.from_args(
    index,
    llm=answering_llm(),
    similarity_top_k=3,
    citation_chunk_size=1024,  # larger than a chunk, so that source n is the n-th node
)
routes = Routes()
get_dispatcher().add_event_handler(routes)

for question in QUESTIONS:
    print(f"\n=== {question}\n{engine.query(question)}")
    event = routes.events[-1]
    print(f"route: {event.route} ({event.reason}), entities: {', '.join(event.entities) or 'none'}")
    for number, node_id in enumerate(event.node_ids, 1):
        node = index.docstore.get_node(node_id)
        span = f"characters {node.start_char_idx}-{node.end_char_idx}"
        print(f"[{number}] {node.metadata['e2_kind']} of {node.ref_doc_id}, {span}")
        print(f"    because: {'; '.join(event.reasons[node_id])}")  # event.trace has all the steps
        print(f"    {node.get_content()[:80]!r}...")
