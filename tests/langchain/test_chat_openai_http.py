"""ChatOpenAI and OpenAIEmbeddings over HTTP against a stub server that counts its calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.documents import Document

from e2graphrag_integrations import Models
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor
from langchain_fakes import split_into_pages
from stub_server import llm_calls, running_stub

langchain_openai = pytest.importorskip("langchain_openai")

API_KEY = "sk-never-to-be-written-0123456789"
TEXT = " ".join(f"Anna met Bert in town number {n}. Cleo gave the map to Dora." for n in range(12))
QUERY = "Where did Anna meet Bert?"

pytestmark = [pytest.mark.slow, pytest.mark.shared]


@pytest.fixture(scope="module")
def stub() -> Iterator[str]:
    with running_stub(summary_tokens=20) as url:
        yield url


@pytest.fixture
async def clients() -> dict[str, Any]:
    # LangChain never closes the clients that it creates.
    with httpx.Client() as client:
        async with httpx.AsyncClient() as async_client:
            yield {"http_client": client, "http_async_client": async_client}


@pytest.fixture
def llm(stub, clients):
    return langchain_openai.ChatOpenAI(
        model="stub",
        base_url=f"{stub}/v1",
        api_key=API_KEY,
        default_headers={"X-Api-Key": API_KEY},
        max_tokens=60,
        **clients,
    )


@pytest.fixture
def embeddings(stub, clients):
    return langchain_openai.OpenAIEmbeddings(
        model="stub",
        base_url=f"{stub}/v1",
        api_key=API_KEY,
        check_embedding_ctx_length=False,  # otherwise it downloads a tokenizer
        **clients,
    )


def documents() -> list[Document]:
    return split_into_pages(TEXT, "towns.pdf", 6, title="Towns")


async def build(how: str, **options: Any) -> E2GraphRAGIndex:
    options |= {"extractor": NameExtractor(), "chunk_size": 20, "chunk_overlap": 0, "group_size": 3}
    index = E2GraphRAGIndex.open(**grouped(options))
    if how == "async":
        await index.aupsert(documents())
    else:
        index.upsert(documents())
    return index


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_build_makes_the_estimated_number_of_http_calls(stub, llm, how):
    options = {"embeddings": "hashing", "concurrency": 2, "auto_build": False}
    index = await build(how, llm=llm, **options)
    estimate = index.estimate()
    before = llm_calls(stub)
    with get_usage_metadata_callback() as usage:
        report = index.build() if how == "sync" else await index.abuild()
    assert llm_calls(stub) - before == report.llm_calls == estimate.llm_calls > 4
    [tokens] = usage.usage_metadata.values()
    assert tokens["input_tokens"] > tokens["output_tokens"] > report.llm_calls
    before = llm_calls(stub)
    assert (index.build().llm_calls, llm_calls(stub)) == (0, before)
    index.close()


async def test_sync_and_async_builds_are_equal_and_no_file_contains_the_api_key(
    llm, embeddings, tmp_path
):
    indexes = {
        how: await build(how, llm=llm, embeddings=embeddings, path=tmp_path / f"{how}.e2g")
        for how in ("sync", "async")
    }
    indexes["sync"].build()
    await indexes["async"].abuild()
    exports = [list(index.rag.export()) for index in indexes.values()]
    assert exports[0] == exports[1]
    first, second = (index.as_retriever(k=6, include_scores=True) for index in indexes.values())
    expected = first.invoke(QUERY)
    assert len(expected) == 6
    assert second.invoke(QUERY) == await first.ainvoke(QUERY) == expected
    indexes["sync"].save_local(tmp_path / "saved.e2g")
    for index in indexes.values():
        index.close()
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) >= 3
    assert not [file.name for file in files if API_KEY.encode() in file.read_bytes()]
    loaded = E2GraphRAGIndex.load_local(
        tmp_path / "saved.e2g",
        llm=llm,
        embeddings=embeddings,
        models=Models(extractor=NameExtractor()),
    )
    assert loaded.as_retriever(k=6, include_scores=True).invoke(QUERY) == expected
    assert API_KEY not in repr(loaded)
    loaded.close()
