"""A real run over HTTP: ChatOpenAI and OpenAIEmbeddings against a server that counts its calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.documents import Document

from e2graphrag_integrations.langchain import E2GraphRAGIndex
from fakes import NameExtractor
from langchain_fakes import paged
from stub_server import llm_calls, running_stub

langchain_openai = pytest.importorskip("langchain_openai")

KEY = "sk-never-to-be-written-0123456789"
TEXT = " ".join(f"Anna met Bert in town number {n}. Cleo gave the map to Dora." for n in range(12))
QUESTION = "Where did Anna meet Bert?"

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def stub() -> Iterator[str]:
    with running_stub(summary_tokens=20) as url:
        yield url


@pytest.fixture
async def clients() -> dict[str, Any]:
    # LangChain leaves the clients of its own making open.
    with httpx.Client() as client:
        async with httpx.AsyncClient() as async_client:
            yield {"http_client": client, "http_async_client": async_client}


@pytest.fixture
def llm(stub, clients):
    return langchain_openai.ChatOpenAI(
        model="stub",
        base_url=f"{stub}/v1",
        api_key=KEY,
        default_headers={"X-Api-Key": KEY},
        max_tokens=60,
        **clients,
    )


@pytest.fixture
def embeddings(stub, clients):
    return langchain_openai.OpenAIEmbeddings(
        model="stub",
        base_url=f"{stub}/v1",
        api_key=KEY,
        check_embedding_ctx_length=False,  # which would load a tokenizer from the internet
        **clients,
    )


def documents() -> list[Document]:
    return paged(TEXT, "towns.pdf", 6, title="Towns")


async def build(how: str, **options: Any) -> E2GraphRAGIndex:
    options |= {"extractor": NameExtractor(), "chunk_size": 20, "chunk_overlap": 0, "group_size": 3}
    index = E2GraphRAGIndex.open(**options)
    if how == "async":
        await index.aupsert(documents())
    else:
        index.upsert(documents())
    return index


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_the_server_is_called_as_often_as_estimated(stub, llm, how):
    index = await build(how, llm=llm, embeddings="hashing", max_concurrency=2)
    estimate = index.estimate()
    before = llm_calls(stub)
    with get_usage_metadata_callback() as usage:
        report = index.build() if how == "sync" else await index.abuild()
    assert llm_calls(stub) - before == report.llm_calls == estimate.llm_calls > 4
    [counted] = usage.usage_metadata.values()
    assert counted["input_tokens"] > counted["output_tokens"] > report.llm_calls
    before = llm_calls(stub)
    assert (index.build().llm_calls, llm_calls(stub)) == (0, before)
    index.close()


async def test_sync_and_async_builds_are_equal_and_no_file_holds_the_key(llm, embeddings, tmp_path):
    made = {
        how: await build(how, llm=llm, embeddings=embeddings, path=tmp_path / f"{how}.e2g")
        for how in ("sync", "async")
    }
    made["sync"].build()
    await made["async"].abuild()
    exports = [list(index.corpus.rag.export()) for index in made.values()]
    assert exports[0] == exports[1]
    one, other = (index.as_retriever(k=6, include_scores=True) for index in made.values())
    expected = one.invoke(QUESTION)
    assert len(expected) == 6
    for found in (other.invoke(QUESTION), await one.ainvoke(QUESTION)):
        assert found == expected
    made["sync"].save_local(tmp_path / "saved.e2g")
    for index in made.values():
        index.close()
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) >= 3
    assert not [file.name for file in files if KEY.encode() in file.read_bytes()]
    loaded = E2GraphRAGIndex.load_local(
        tmp_path / "saved.e2g", llm=llm, embeddings=embeddings, extractor=NameExtractor()
    )
    assert loaded.as_retriever(k=6, include_scores=True).invoke(QUESTION) == expected
    assert KEY not in repr(loaded)
    loaded.close()
