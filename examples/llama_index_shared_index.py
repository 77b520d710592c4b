"""Answer with LlamaIndex from an index that another process writes, one scope per tenant.

    pip install torch --index-url https://download.pytorch.org/whl/cpu   # Linux without a GPU
    pip install -e ".[llama-index,local]"
    python examples/llama_index_shared_index.py

Runs offline: the packages include all-MiniLM-L6-v2 and a small spaCy pipeline. The LLM is a
stand-in that quotes a sentence; see stand_in_llm.py to use your own. With a URL such as
postgresql://host/db?schema=letters instead of the file, the writers may be on other machines.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from llama_index.core.query_engine import CitationQueryEngine
from stand_in_llm import answering_llm

from e2graphrag_integrations import E2GraphRAG, FreshnessPolicy, IndexSettings, SourceDocument
from e2graphrag_integrations.llama_index import E2GraphRAGRetriever

QUESTION = "What did Bob give to Alice?"
FIRST = [
    SourceDocument("paris", "Alice met Bob in Paris. Bob gave Alice a map.", metadata={"team": 1}),
    SourceDocument("rome", "Zoe met Bob in Rome. Bob gave Zoe a key.", metadata={"team": 2}),
]
LATER = SourceDocument("oslo", "Bob gave Alice a lamp in Oslo.", metadata={"team": 2})

with (
    tempfile.TemporaryDirectory() as folder,
    E2GraphRAG.open(
        Path(folder) / "letters.e2g", settings=IndexSettings(scope_keys=["team"])
    ) as writer,
):
    writer.add(FIRST)
    with E2GraphRAG.open(writer.path, freshness=FreshnessPolicy(max_staleness=0)) as reader:
        for step in ("first", "later"):
            for team in (1, 2):
                retriever = E2GraphRAGRetriever(reader.scoped({"team": team}), similarity_top_k=1)
                answer = CitationQueryEngine(retriever, llm=answering_llm()).query(QUESTION)
                sources = [source.node.ref_doc_id for source in answer.source_nodes]
                print(f"{step}, team {team}: {answer} from {', '.join(sources)}")
            writer.add(LATER)
