"""The messages in docs/troubleshooting.md are those that the package raises."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    RetryPolicy,
    SourceDocument,
    WriteOptions,
)
from e2graphrag_integrations.cli import main as cli
from e2graphrag_integrations.loaders import read_data
from e2graphrag_integrations.options import grouped
from file_makers import make_pdf_of

PAGE = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^```text\n(\w+Error): (.*)\n```$", PAGE, re.MULTILINE)
PRINTED = re.findall(r"^```text\n((?:error|warning): .*)\n```$", PAGE, re.MULTILINE)
LETTER = SourceDocument("letter-1", "Alice met Bob in Paris. Bob gave Alice a map.")
LONG = SourceDocument("long", "Alice met Bob. " * 300)


class ZeroVectors(HashingEmbedder):
    def embed(self, texts):
        return np.zeros((len(texts), self.dimension), dtype=np.float32)


class WrongShape(HashingEmbedder):
    def embed(self, texts):
        return np.ones((len(texts), 8), dtype=np.float32)


def index(path: str = "letters.e2g", **options: Any) -> E2GraphRAG:
    rag = E2GraphRAG.open(path, **grouped({"embedder": "hashing", "extractor": None} | options))
    with contextlib.suppress(Exception):
        rag.add(LETTER)
    return rag


def ask(question: str = "Who met Bob?", **options: Any) -> None:
    with index() as rag:
        rag.retrieve(question, **options)


def write(document: SourceDocument, *, max_llm_calls: int | None = None, **options: Any) -> None:
    settings = {"embedder": "hashing", "chunk_size": 64, "chunk_overlap": 0} | options
    with E2GraphRAG.open("written.e2g", **grouped(settings)) as rag:
        rag.add(document, max_llm_calls=max_llm_calls)


def ask_with_another_embedder() -> None:
    index().close()
    with E2GraphRAG.open("letters.e2g", embedder=HashingEmbedder(64)) as rag:
        rag.retrieve("Who met Bob?")


def open_with_another_chunk_size() -> None:
    index().close()
    E2GraphRAG.open("letters.e2g", chunk_size=300)


def open_text_file() -> None:
    Path("letter.txt").write_text("Alice")
    E2GraphRAG.open("letter.txt")


def open_file_of_another_version() -> None:
    index().close()
    with contextlib.closing(sqlite3.connect("letters.e2g")) as connection:
        connection.execute("PRAGMA user_version = 99")
    E2GraphRAG.open("letters.e2g")


def open_missing_server() -> None:
    pytest.importorskip("psycopg")
    E2GraphRAG.open("postgresql://127.0.0.1:1/db")


def write_beside_another_writer() -> None:
    with index() as writer, writer.write_lock():
        E2GraphRAG.open("letters.e2g", embedder="hashing", writes=WriteOptions(lock_timeout=0)).add(
            LONG
        )


def ask_deleted_index() -> None:
    with index() as rag:
        Path("letters.e2g").unlink()
        rag.retrieve("Who met Bob?")


def copy_over_open_index() -> None:
    with index() as rag, index("copy.e2g"):
        rag.copy_to("copy.e2g")


def add_twice() -> None:
    with index() as rag:
        rag.add(SourceDocument(LETTER.id, "Carol met Dave."))


def failing_summarizer(_: str) -> str:
    raise ValueError("429 too many requests")


def damage() -> None:
    index().close()
    with contextlib.closing(sqlite3.connect("letters.e2g")) as connection:
        connection.execute("UPDATE content SET value = x'00'")
        connection.commit()
    ask()


def ask_closed_index() -> None:
    rag = index()
    rag.close()
    rag.retrieve("Who met Bob?")


def call(method: str, *arguments: Any) -> None:
    with index() as rag:
        getattr(rag, method)(*arguments)


def load_without_import() -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.data_structs import registry
    from llama_index.core.storage.index_store import utils

    from e2graphrag_integrations.llama_index import E2GraphRAGIndexStruct

    classes = registry.INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS
    registered = classes.pop(E2GraphRAGIndexStruct.get_type())
    try:
        utils.json_to_index_struct({"__type__": registered.get_type(), "__data__": "{}"})
    finally:
        classes[registered.get_type()] = registered


def query_without_key() -> None:
    pytest.importorskip("llama_index.llms.openai")
    llama_index().as_query_engine()


def unknown_retriever_option() -> None:
    pytest.importorskip("llama_index.core")
    llama_index().as_retriever(similarity_cutoff=0.5)


def llama_index() -> Any:
    from llama_index.core import Document

    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    return E2GraphRAGIndex.from_documents([Document(text="Alice.")], embed_model="hashing")


def assert_matches(text: str, message: str) -> None:
    pattern = ".*".join(re.escape(part.strip()) for part in text.split("…"))
    assert re.search(pattern, message, re.DOTALL), message


CAUSES: list[Callable[[], None]] = [
    ask_with_another_embedder,
    open_with_another_chunk_size,
    lambda: write(LETTER, embedder="nobody/no-model"),
    lambda: write(LETTER, extractor="xx_no_pipeline"),
    open_text_file,
    open_file_of_another_version,
    open_missing_server,
    lambda: read_data(bytes(100), "a.txt"),
    lambda: read_data(make_pdf_of([b"q Q"], [0]), "scan.pdf"),
    lambda: read_data(b"Bob", "a.txt", encoding="klingon"),
    write_beside_another_writer,
    ask_deleted_index,
    copy_over_open_index,
    add_twice,
    lambda: write(LONG, summarizer=lambda _: "A letter.", llm_id="one", max_llm_calls=1),
    lambda: write(LONG, summarizer=failing_summarizer, retry=RetryPolicy(attempts=1)),
    lambda: write(LETTER, embedder=WrongShape()),
    lambda: write(LETTER, embedder=ZeroVectors()),
    lambda: write(LETTER, extractor=object()),
    lambda: ask(where={"year": {"$near": 3}}),
    lambda: call("scoped", {}),
    lambda: call("entity", "Zoe"),
    lambda: call("document", "letter-9"),
    lambda: ask("x" * 40_000),
    ask_closed_index,
    damage,
    load_without_import,
    query_without_key,
    unknown_retriever_option,
]
"""What raises the messages of the page, in their order."""


@pytest.mark.fast_cases(8)
@pytest.mark.parametrize(("number", "cause"), [*enumerate(CAUSES)])
def test_message_on_the_page_is_the_one_that_is_raised(number, cause, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    name, text = MESSAGES[number]
    with pytest.raises(Exception) as raised:  # noqa: PT011 - the page names the class
        cause()
    assert type(raised.value).__name__ == name
    assert_matches(text, str(raised.value))


COMMANDS = [
    "query letters.e2g Who?",
    "index empty.txt --out empty.e2g --embedder hashing",
    "mcp letters.e2g --transport http --host 0.0.0.0",
    "mcp letters.e2g --transport http --port 99999",
]
"""What prints the messages of the command line, in their order."""


@pytest.mark.parametrize(("number", "command"), [*enumerate(COMMANDS)])
def test_message_on_the_page_is_the_one_that_is_printed(
    number, command, tmp_path, monkeypatch, capsys
):
    pytest.importorskip("mcp")
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").touch()
    if number:
        index().close()
    cli.main(command.split())
    assert_matches(PRINTED[number], capsys.readouterr().err)


def test_every_message_on_the_page_has_a_cause_here():
    assert (len(MESSAGES), len(PRINTED)) == (len(CAUSES), len(COMMANDS))
