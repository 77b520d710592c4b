"""A server that repeats the key: it reaches neither errors nor logs, `status`, files or output."""

from __future__ import annotations

import json
import logging
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, OpenAISummarizer
from e2graphrag_integrations.cli.main import main
from e2graphrag_integrations.errors import E2GraphRAGError
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor, numbered

KEYS = ["sk-very-secret-0123456789", "Uncommon.Key/Without=Prefix"]
MODELS = {"extractor": NameExtractor(), "chunk_size": 4, "chunk_overlap": 0}


class Echo(BaseHTTPRequestHandler):
    """Rejects every call and repeats its key, in the message and alone."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers["Authorization"].removeprefix("Bearer ")
        error = {"message": f"Wrong key <{key}>, header {self.headers['Authorization']}"}
        data = json.dumps({"error": error}).encode()
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Suppress the request log."""


@pytest.fixture(scope="module")
def url():
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()


@pytest.fixture(params=KEYS)
def key(request):
    return request.param


@pytest.fixture
def check(key, caplog, tmp_path, capsys):
    """Return a function that checks an error, the logs, the output and all files."""
    caplog.set_level(logging.INFO)

    def check(error, *texts):
        report = "".join(traceback.format_exception(error))
        assert "401" in report
        for text in (report, repr(error), caplog.text, *capsys.readouterr(), *map(str, texts)):
            assert key not in text
        for file in tmp_path.rglob("*"):
            assert file.is_dir() or key.encode() not in file.read_bytes()

    return check


def test_the_core_never_shows_the_key(url, key, check, tmp_path):
    llm = OpenAISummarizer("m", base_url=url, api_key=key)
    options = {**MODELS, "embedder": HashingEmbedder(), "summarizer": llm}
    with E2GraphRAG.open(tmp_path / "i.e2g", **grouped(options)) as rag:
        with pytest.raises(E2GraphRAGError) as caught:
            rag.add(numbered(9))
        [status] = rag.status()
        assert status.status == "failed"
        check(caught.value, status.reason, llm, rag)
    llm._clients.close()


def test_the_command_line_never_prints_the_key(url, key, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MY_KEY", key)
    book, out = tmp_path / "book.txt", tmp_path / "i.e2g"
    book.write_text("Anna met Bert in Oslo. " * 30)
    options = [
        "--embedder",
        "hashing",
        "--chunk-size",
        "30",
        "--chunk-overlap",
        "5",
        "--llm-model",
        "m",
    ]
    server = ["--llm-base-url", url, "--llm-api-key-env", "MY_KEY"]
    assert main(["index", str(book), "--out", str(out), *options, *server]) == 2
    printed = "".join(capsys.readouterr())
    assert "401" in printed
    assert key not in printed
    assert not any(key.encode() in file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("is_async", [False, True])
async def test_llama_index_never_shows_the_key(url, key, check, is_async):
    pytest.importorskip("llama_index.llms.openai_like")
    from llama_index.core import Document
    from llama_index.llms.openai_like import OpenAILike

    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    llm = OpenAILike(model="m", api_base=url, api_key=key, max_retries=0, is_chat_model=True)
    options = {**MODELS, "embed_model": "hashing", "llm": llm}
    documents = [Document(text=numbered(9).text)]

    async def build():
        if is_async:
            await E2GraphRAGIndex.afrom_documents(documents, **grouped(options))
        E2GraphRAGIndex.from_documents(documents, **grouped(options))

    with pytest.raises(E2GraphRAGError) as caught:
        await build()
    check(caught.value)


def test_langchain_never_shows_the_key(url, key, check, tmp_path):
    pytest.importorskip("langchain_openai")
    from langchain_core.documents import Document
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    from e2graphrag_integrations.langchain import E2GraphRAGIndex

    llm = ChatOpenAI(model="m", base_url=url, api_key=key, max_retries=0)
    embeddings = OpenAIEmbeddings(
        base_url=url, api_key=key, max_retries=0, check_embedding_ctx_length=False
    )
    documents = [Document(numbered(9).text, id="d")]
    for models in ({"llm": llm, "embeddings": "hashing"}, {"embeddings": embeddings}):
        path = tmp_path / f"{len(models)}.e2g"
        with pytest.raises(E2GraphRAGError) as caught:
            E2GraphRAGIndex.from_documents(documents, **grouped({"path": path, **MODELS, **models}))
        check(caught.value)
