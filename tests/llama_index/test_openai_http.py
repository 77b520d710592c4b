"""LlamaIndex's OpenAI-like LLM over HTTP, against a stub server that counts its calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from llama_index.core import Document, PromptTemplate

from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor
from stub_server import llm_calls, running_stub

openai_like = pytest.importorskip("llama_index.llms.openai_like")

KEY = "sk-never-to-be-written-0123456789"
SENTENCES = [f"Anna met Bert in town number {n}. Cleo gave the map to Dora." for n in range(12)]
QUESTION = "Where did Anna meet Bert?"
DOCUMENT = Document(id_="towns", text=" ".join(SENTENCES), metadata={"title": "Towns"})

pytestmark = [pytest.mark.slow, pytest.mark.shared]


@pytest.fixture(scope="module")
def stub() -> Iterator[str]:
    with running_stub(summary_tokens=20) as url:
        yield url


@pytest.fixture(params=[True, False], ids=["chat", "completion"])
async def llm(request, stub):
    # LlamaIndex does not close the clients that it creates.
    with httpx.Client() as client:
        async with httpx.AsyncClient() as async_client:
            yield openai_like.OpenAILike(
                model="stub",
                api_base=f"{stub}/v1",
                api_key=KEY,
                is_chat_model=request.param,
                default_headers={"X-Api-Key": KEY},
                max_tokens=60,
                http_client=client,
                async_http_client=async_client,
            )


async def build(method: str, documents: list[Document], **options: Any) -> E2GraphRAGIndex:
    options |= {"embed_model": "hashing", "extractor": NameExtractor()}
    options |= {"chunk_size": 20, "chunk_overlap": 0, "group_size": 3}
    if method == "async":
        return await E2GraphRAGIndex.afrom_documents(documents, **grouped(options))
    return E2GraphRAGIndex.from_documents(documents, **grouped(options))


@pytest.mark.parametrize("method", ["sync", "async"])
async def test_the_server_receives_the_estimated_calls_and_no_file_contains_the_key(
    stub, llm, method, tmp_path
):
    estimate = (await build(method, [], llm=llm)).estimate([DOCUMENT])
    options = {"llm": llm, "path": tmp_path / "towns.e2g", "concurrency": 2}
    before = llm_calls(stub)
    index = await build(method, [DOCUMENT], **options)
    assert llm_calls(stub) - before == index.report.llm_calls == estimate.llm_calls > 4

    before = llm_calls(stub)
    with await build(method, [DOCUMENT], **options) as again:  # the path has it already
        assert again.report.skipped == ("towns",)
        assert list(again.rag.export()) == list(index.rag.export())
    assert llm_calls(stub) == before

    # The stub repeats the text between these two headings.
    template = PromptTemplate("# INPUT DATA\n{context_str}\n# USER QUERY\n{query_str}")
    engine = index.as_query_engine(llm=llm, response_mode="compact", text_qa_template=template)
    for answer in (engine.query(QUESTION), await engine.aquery(QUESTION)):
        assert answer.source_nodes
        assert "Anna met Bert in town" in str(answer)
    assert llm_calls(stub) == before + 2

    (await build(method, [DOCUMENT], llm=llm)).persist(tmp_path / "persisted")
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 3
    assert not [file.name for file in files if KEY.encode() in file.read_bytes()]
    assert KEY not in str(index.rag.made_with)
    index.close()
