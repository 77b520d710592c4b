r"""Try an installed package: its command line, a small index, and the features of its extras.

    python .github/smoke_test.py            # a feature whose extra is missing must say so
    python .github/smoke_test.py zh files   # the features of these extras must work

It runs in the environment of a user and needs no other package.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import entry_points, metadata, version
from pathlib import Path

import e2graphrag_integrations as package
from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.errors import MissingDependencyError, StoreError

TEXT = "Alice met Bob in Paris. Bob gave Alice a map. "
QUESTION = "What did Bob give to Alice?"
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Count 0/Kids[]>>endobj\n"
    b"xref\n0 3\n0000000000 65535 f \n0000000009 00000 n \n0000000052 00000 n \n"
    b"trailer<</Size 3/Root 1 0 R>>\nstartxref\n97\n%%EOF\n"
)
"""A PDF file without pages."""


def ask(**options: object) -> None:
    """Build a small index and check an answer."""
    with E2GraphRAG.open(":memory:", chunk_size=20, chunk_overlap=0, **options) as rag:
        rag.add(SourceDocument("letter", 8 * TEXT))
        result = rag.retrieve(QUESTION, k=2)
        assert "map" in result.nodes[0].text, result
        assert not rag.verify().problems


def run(*arguments: str | Path) -> str:
    """Run the command line and return its output."""
    script = Path(sys.executable).with_name("e2graphrag")
    return subprocess.run(
        [script, *map(str, arguments)], check=True, capture_output=True, encoding="utf-8"
    ).stdout


def core() -> None:
    [_] = entry_points(group="console_scripts", name="e2graphrag")
    installed = version("e2graphrag-integrations")
    assert run("--version").strip().endswith(installed)
    assert package.__version__ == installed
    assert "site-packages" in str(package.__file__), "not the installed package"
    ask(embedder="hashing")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "letter.txt").write_text(8 * TEXT, encoding="utf-8")
        index = folder / "letters.e2g"
        run("index", folder / "letter.txt", "--out", index, "--embedder", "hashing")
        assert "letter.txt" in run("query", index, QUESTION)
        assert run("indexes", "verify", index)
        for language in ("en", "zh"):
            from e2graphrag_integrations.cli.demo import DEMOS

            assert DEMOS[language].document().text


def local() -> None:
    ask(embedder=package.SentenceTransformerEmbedder())


def multilingual() -> None:
    ask(embedder=package.MultilingualE5Embedder())


def chinese() -> None:
    extractor = package.ChineseEntityExtractor()
    [sentences] = extractor.extract(["劉備、關羽、張飛在桃園結義。後來曹操統一了北方。"])
    assert "刘备" in {mention.entity for sentence in sentences for mention in sentence}


def openai() -> None:
    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            message = {"role": "assistant", "content": "Bob gave Alice a map."}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
            reply = json.dumps(body | {"choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        summarizer = package.OpenAISummarizer("m", base_url=url, api_key="none")
        try:
            ask(embedder="hashing", summarizer=summarizer)
        except package.errors.IndexingError as error:
            raise error.__cause__ or error from error
        finally:
            server.shutdown()


def files() -> None:
    from e2graphrag_integrations.loaders import read_file

    with tempfile.TemporaryDirectory() as name:
        page, empty = Path(name, "letter.html"), Path(name, "empty.pdf")
        page.write_text(f"<h1>Letter</h1><p>{TEXT}</p>", encoding="utf-8")
        empty.write_bytes(PDF)
        assert "Bob gave Alice a map." in read_file(page).text
        assert read_file(empty).text == ""


def parquet() -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        E2GraphRAG.open(":memory:", embedder="hashing") as rag,
    ):
        rag.add(SourceDocument("letter", TEXT))
        rag.export_graph(Path(name, "graph"), "parquet")
        assert [*Path(name, "graph").glob("**/*.parquet")]


def ray() -> None:
    with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
        rag.add(SourceDocument("letter", TEXT), engine="ray")
        assert rag.document_ids == ["letter"]


def postgres() -> None:
    try:  # there is no server: the driver must say so
        E2GraphRAG.open("postgresql://127.0.0.1:1/none?connect_timeout=2", embedder="hashing")
    except StoreError:
        return
    raise AssertionError("a server answered")


def qdrant() -> None:
    vectors = package.QdrantVectors("http://127.0.0.1:1/letters")
    ask(embedder="hashing", vectors=vectors)  # without a server, the index's own vectors answer


def llama_index() -> None:
    from e2graphrag_integrations.llama_index import E2GraphRAGIndex  # isort: skip
    from llama_index.core import Document

    documents = [Document(text=TEXT, id_="letter")]
    index = E2GraphRAGIndex.from_documents(documents, embed_model="hashing")
    [found, *_] = index.as_retriever().retrieve(QUESTION)
    assert "map" in found.node.get_content()


def langchain() -> None:
    from e2graphrag_integrations.langchain import E2GraphRAGIndex  # isort: skip
    from langchain_core.documents import Document

    documents = [Document(TEXT, id="letter")]
    index = E2GraphRAGIndex.from_documents(documents, embeddings="hashing")
    [found, *_] = index.as_retriever().invoke(QUESTION)
    assert "map" in found.page_content


def mcp() -> None:
    import asyncio

    from e2graphrag_integrations.agents.tools import IndexTools
    from e2graphrag_integrations.server.mcp_server import make_server

    async def call() -> None:
        from mcp import Client

        with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
            rag.add(SourceDocument("letter", TEXT))
            async with Client(make_server(IndexTools(rag))) as client:
                result = await client.call_tool("search", {"question": QUESTION})
                assert "map" in result.content[0].text

    asyncio.run(call())


def serve() -> None:
    with tempfile.TemporaryDirectory() as name:
        index = Path(name, "letters.e2g")
        with E2GraphRAG.open(index, embedder="hashing") as rag:
            rag.add(SourceDocument("letter", TEXT))
        server = subprocess.Popen(
            [sys.executable, "-m", "e2graphrag_integrations.cli", "serve", index, "--port", "0"],
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            if "[serve]" in line:
                raise MissingDependencyError(line)
            url = line.split()[-1].rstrip("/")
            for path in ("/health", "/"):
                with urllib.request.urlopen(url + path, timeout=30) as reply:
                    assert reply.status == 200
        finally:
            server.terminate()
            server.communicate(timeout=30)


def tracing() -> None:
    from opentelemetry import trace

    names: list[str] = []

    class Tracer(trace.NoOpTracer):
        def start_as_current_span(self, name: str, *_: object, **__: object):  # noqa: ANN202
            names.append(name)
            return super().start_as_current_span(name)

    class Provider(trace.TracerProvider):
        def get_tracer(self, *_: object, **__: object) -> trace.Tracer:
            return Tracer()

    trace.set_tracer_provider(Provider())
    ask(embedder="hashing")
    assert {"e2graphrag.index", "e2graphrag.retrieve"} <= set(names), names


FEATURES: dict[str, Callable[[], None]] = {
    "local": local,
    "multilingual": multilingual,
    "zh": chinese,
    "openai": openai,
    "files": files,
    "parquet": parquet,
    "ray": ray,
    "postgres": postgres,
    "qdrant": qdrant,
    "llama-index": llama_index,
    "langchain": langchain,
    "mcp": mcp,
    "serve": serve,
    "tracing": tracing,
}
"""Uses the feature of each extra; raises `MissingDependencyError` without it."""


def check_error(extra: str) -> None:
    """Check that the error without an extra names it."""
    try:
        FEATURES[extra]()
    except (MissingDependencyError, ModuleNotFoundError) as error:
        assert extra in ("mcp", "tracing") or f"e2graphrag-integrations[{extra}]" in str(error), (
            error
        )
    else:
        raise AssertionError(f"{extra} works without its extra")


def main() -> None:
    core()
    print("core")
    for extra in sys.argv[1:]:
        FEATURES[extra]()
        print(extra)
    if not sys.argv[1:]:
        extras = metadata("e2graphrag-integrations").get_all("Provides-Extra", [])
        for extra in extras:
            if extra != "all":
                check_error(extra)
        print(f"clear errors without {', '.join(extras)}")


if __name__ == "__main__":
    main()
