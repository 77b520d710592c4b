"""A real run over HTTP: LlamaIndex's OpenAI-like LLM against a server that counts its calls."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from llama_index.core import Document, PromptTemplate

from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from fakes import NameExtractor

openai_like = pytest.importorskip("llama_index.llms.openai_like")

SHARED = Path(__file__).resolve().parents[3] / "shared"
KEY = "sk-never-to-be-written-0123456789"
SENTENCES = [f"Anna met Bert in town number {n}. Cleo gave the map to Dora." for n in range(12)]
QUESTION = "Where did Anna meet Bert?"
DOCUMENT = Document(id_="towns", text=" ".join(SENTENCES), metadata={"title": "Towns"})

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def stub() -> Iterator[str]:
    """The project's own stub of an OpenAI server, which summarises extractively."""
    script = SHARED / "tools" / "openai_stub.py"
    if not script.exists():
        pytest.skip(f"{script} is missing")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(script), "--port", str(port), "--summary-tokens", "20"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            if process.poll() is not None:
                pytest.fail(f"{script} ended with {process.returncode}")
            try:
                calls(url)
                break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail(f"{script} does not answer")
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def calls(stub: str) -> int:
    with urllib.request.urlopen(f"{stub}/stats", timeout=5) as reply:  # noqa: S310 - our own server
        return json.load(reply)["llm_calls"]


@pytest.fixture(params=[True, False], ids=["chat", "completion"])
async def llm(request, stub):
    # LlamaIndex leaves the clients of its own making open.
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


async def build(how: str, documents: list[Document], **options: Any) -> E2GraphRAGIndex:
    options |= {"embed_model": "hashing", "extractor": NameExtractor()}
    options |= {"chunk_size": 20, "chunk_overlap": 0, "group_size": 3}
    if how == "async":
        return await E2GraphRAGIndex.afrom_documents(documents, **options)
    return E2GraphRAGIndex.from_documents(documents, **options)


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_the_server_is_called_as_often_as_estimated_and_no_file_holds_the_key(
    stub, llm, how, tmp_path
):
    estimate = (await build(how, [], llm=llm)).estimate_cost([DOCUMENT])
    options = {"llm": llm, "summary_cache": tmp_path / "summaries.e2g", "num_workers": 2}
    before = calls(stub)
    index = await build(how, [DOCUMENT], **options)
    assert calls(stub) - before == index.last_report.llm_calls == estimate.llm_calls > 4

    before = calls(stub)
    again = await build(how, [DOCUMENT], **options)
    assert (calls(stub) - before, again.last_report.llm_calls) == (0, 0)
    assert again.last_report.summaries == index.last_report.summaries

    # The stub repeats what stands between these two headings.
    template = PromptTemplate("# INPUT DATA\n{context_str}\n# USER QUERY\n{query_str}")
    engine = index.as_query_engine(llm=llm, response_mode="compact", text_qa_template=template)
    for answer in (engine.query(QUESTION), await engine.aquery(QUESTION)):
        assert answer.source_nodes
        assert "Anna met Bert in town" in str(answer)
    assert calls(stub) == before + 2

    index.persist(tmp_path / "persisted")
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 3
    assert not [file.name for file in files if KEY.encode() in file.read_bytes()]
    assert KEY not in str(index.made_with)
