"""Documents in several languages, with the real extractors, in the core and on the command line."""

from __future__ import annotations

import logging
import pickle

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    RuleBasedExtractor,
    SourceDocument,
)
from e2graphrag_integrations.cli.main import main
from e2graphrag_integrations.entities.chinese import extractor as chinese_extractor
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    InvalidInputError,
    MissingDependencyError,
    SettingsMismatchError,
)
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.types import SUBJECT_LABELS
from fakes import NameExtractor

DREAM = SourceDocument(
    "dream", "曹雪芹生于南京，著有《红楼梦》。贾宝玉和林黛玉住在大观园。薛宝钗后来嫁给了贾宝玉。"
)
TEA = SourceDocument("tea", "Alice met the Hatter in Oxford. The Hatter gave Alice a cup of tea.")
WALD = SourceDocument(
    "wald",
    "Als Anna Meier am Morgen in Hamburg erwachte, war der Schnee schon geschmolzen, und die "
    "Kinder spielten wieder auf der Wiese. Anna Meier ging mit ihnen in den Wald.",
)
DOCUMENTS = [DREAM, TEA, WALD]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mixed.e2g"


@pytest.fixture
def open_mixed(path):
    """Return a function that opens a file with the default extractors."""
    opened = []

    def make(name=None, **options):
        where = path if name is None else path.with_name(name)
        opened.append(E2GraphRAG.open(where, **grouped({"embedder": "hashing"} | options)))
        return opened[-1]

    yield make
    for rag in opened:
        rag.close()


@pytest.fixture
def mixed(open_mixed):
    rag = open_mixed()
    rag.add(DOCUMENTS)
    return rag


@pytest.fixture
def without_opencc(monkeypatch):
    """Make the extra `zh` look as if it was not installed."""

    def missing(_self):
        raise MissingDependencyError(f"OpenCC is not installed: {chinese_extractor.INSTALL}")

    monkeypatch.setattr(chinese_extractor.Simplifier, "check_installed", missing)
    monkeypatch.setattr(chinese_extractor.Simplifier, "simplify", missing)


def extractors(rag):
    return {key for key in rag.stats().settings if key.startswith("extractor")}


def test_each_document_is_extracted_by_the_extractor_of_its_language(mixed):
    stats = mixed.stats()
    assert stats.languages == {"zh": 1, "en": 1, "de": 1}
    assert stats.settings["extractor"].startswith("spacy:en_e2g_sm")
    assert stats.settings["extractor_zh"].startswith("chinese:")
    assert stats.settings["extractor_de"].startswith("rules:")
    assert {"贾宝玉", "红楼梦", "hatter", "anna meier"} <= set(mixed.graph.names)
    assert mixed.verify().ok
    assert mixed.document("dream").language == "zh"


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("question", "document", "read", "entity"),
    [
        ("贾宝玉住在哪里？", "dream", ("zh",), "贾宝玉"),
        ("Who gave Alice tea?", "tea", ("en",), "alice"),
        ("Wohin ging Anna Meier mit den Kindern?", "wald", ("en", "de"), "anna meier"),
    ],
)
def test_a_question_is_read_in_its_script(mixed, question, document, read, entity):
    result = mixed.retrieve(question, k=3)
    assert result.nodes[0].document_id == document
    assert result.nodes[0].language == mixed.document(document).language
    assert result.trace.question_languages == read
    assert entity in {link.entity for link in result.trace.links}
    assert result.trace.languages == {"zh": 1, "en": 1, "de": 1}
    assert "languages: question " in result.trace.explain()


async def test_nodes_are_filtered_by_language(mixed):
    for where in ({"language": "zh"}, {"language": {"$nin": ["en", "de"]}}, _is_chinese):
        nodes = (await mixed.aretrieve("Alice", where=where, k=9)).nodes
        assert [node.document_id for node in nodes] == ["dream"]
    assert {one.name for one in mixed.entities(where={"language": "de"})} >= {"anna meier"}


def _is_chinese(metadata):
    return metadata["language"] == "zh"


def test_the_own_metadata_key_of_the_user_wins(open_mixed):
    rag = open_mixed()
    rag.add([SourceDocument("a", TEA.text, metadata={"language": "old"}), DREAM])
    assert [n.document_id for n in rag.retrieve("tea", where={"language": "old"}).nodes] == ["a"]
    assert rag.retrieve("tea", where={"language": "en"}).nodes == ()
    [node] = rag.retrieve("tea", where={"language": "old"}).nodes
    assert (node.language, node.metadata) == ("en", {"language": "old"})
    assert rag.retrieve("贾宝玉", where={"language": "zh"}).nodes[0].metadata == {}


# Writing


def test_an_update_keeps_and_changes_languages(mixed, open_mixed):
    assert set(mixed.add(DOCUMENTS).skipped) == {"dream", "tea", "wald"}
    forced = SourceDocument("wald", WALD.text, language="nl")
    with pytest.raises(DuplicateDocumentError, match="with the language 'de'"):
        mixed.add(forced)
    assert mixed.update(forced).documents == 1
    assert mixed.stats().settings["extractor_nl"].startswith("rules:")
    assert mixed.update(WALD).skipped == ("wald",)  # which does not say another language
    assert mixed.store.languages()["wald"] == "nl"
    assert mixed.update(SourceDocument("tea", DREAM.text)).documents == 1
    assert mixed.retrieve("Alice", where={"language": "zh"}, k=9).trace.languages == {"zh": 1}
    fresh = open_mixed("fresh.e2g")
    fresh.add([DREAM, SourceDocument("tea", DREAM.text), forced])
    assert list(mixed.export()) == list(fresh.export())  # without unused extractors
    assert mixed.verify().ok


def test_an_index_has_a_language_for_documents_that_do_not_say_theirs(open_mixed):
    rag = open_mixed(language="de-AT")
    rag.add([TEA, SourceDocument("zh", DREAM.text, language="zh_TW")])
    assert rag.store.languages() == {"tea": "de", "zh": "zh"}
    assert open_mixed().add(TEA).skipped == ("tea",)
    with pytest.raises(DuplicateDocumentError, match="language 'de'"):
        open_mixed(language="en").add(TEA)


@pytest.mark.parametrize("language", ["xx", "", "No language found.", 3, None])
def test_an_unknown_code_is_rejected_before_a_file_is_created(path, open_mixed, language):
    with pytest.raises(InvalidInputError, match="is not the code of a language"):
        open_mixed(language=language)
    assert not path.exists()
    if language is not None:
        with pytest.raises(InvalidInputError, match="language of document 'a'"):
            SourceDocument("a", "Text.", language=language)


def test_a_missing_extra_is_reported_before_anything_is_written(open_mixed, without_opencc):
    rag = open_mixed()
    with pytest.raises(MissingDependencyError, match=r"e2graphrag-integrations\[zh\]"):
        rag.add([TEA, DREAM])
    assert rag.status() == []
    assert rag.add(TEA).documents == 1  # English needs no extra
    assert rag.retrieve("贾宝玉是谁？").nodes  # and a question fails only in an index that has it


def test_other_questions_work_without_the_extra(mixed, open_mixed, without_opencc):
    rag = open_mixed()
    assert rag.retrieve("Who is the Hatter?").nodes[0].document_id == "tea"
    assert rag.retrieve("贾宝玉", mode="global").nodes
    with pytest.raises(MissingDependencyError):
        rag.retrieve("贾宝玉是谁？")


def test_copies_keep_the_languages(mixed, tmp_path):
    mixed.export_to(tmp_path / "export")
    E2GraphRAG.import_from(tmp_path / "export", tmp_path / "copy.e2g")
    with E2GraphRAG.open(tmp_path / "copy.e2g") as copy:
        assert list(copy.export()) == list(mixed.export())
        assert copy.stats().languages == mixed.stats().languages
        assert copy.retrieve("贾宝玉", k=9).nodes == mixed.retrieve("贾宝玉", k=9).nodes


def test_a_queue_keeps_the_languages(open_mixed):
    def fail(_):
        raise RuntimeError("no model")

    rag = open_mixed(summarizer=fail, llm_id="m", chunk_size=20, chunk_overlap=0)
    with pytest.raises(Exception, match="no model"):
        rag.add([SourceDocument("forced", DREAM.text * 3, language="ja")])
    rag.close()
    again = open_mixed(summarizer=lambda _: "概要。", llm_id="m")
    assert again.resume().documents == 1
    assert again.store.languages() == {"forced": "ja"}


# Extractors


def test_one_extractor_for_all_documents_remains_possible(open_mixed):
    rag = open_mixed(extractor=NameExtractor())
    rag.add(DOCUMENTS)
    assert extractors(rag) == {"extractor", "extractor_model"}
    assert rag.stats().languages == {"zh": 1, "en": 1, "de": 1}
    rag.close()
    with pytest.raises(SettingsMismatchError, match=r"pass models=Models\(extractor"):
        open_mixed().retrieve("Anna")


def test_a_mapping_names_the_extractors_of_some_languages(open_mixed):
    rag = open_mixed(extractor={"de": NameExtractor()})
    rag.add(DOCUMENTS)
    assert rag.stats().settings["extractor_de"].startswith("fake:names")
    rag.close()
    again = open_mixed()
    assert again.retrieve("贾宝玉").nodes  # the extractor of German documents is not needed
    with pytest.raises(SettingsMismatchError, match=r"extractor of 'de'.*\{\"de\": \.\.\.\}"):
        again.update(SourceDocument("wald", f"{WALD.text} Und noch einmal in den Wald."))
    other = open_mixed(extractor={"de": "de_core_news_sm"})
    with pytest.raises(MissingDependencyError, match="de_core_news_sm"):
        other.retrieve("Wo ist Anna?")


def test_reindex_brings_documents_to_the_extractors_of_their_languages(open_mixed):
    rag = open_mixed(extractor=NameExtractor())
    rag.add(DOCUMENTS)
    rag.close()
    again = open_mixed(extractor={"de": NameExtractor()})
    assert again.reindex().documents == 3
    assert again.reindex().documents == 0
    fresh = open_mixed("fresh.e2g", extractor={"de": NameExtractor()})
    fresh.add(DOCUMENTS)
    assert list(again.export()) == list(fresh.export())
    single = open_mixed(extractor=NameExtractor())
    single.reindex()
    assert extractors(single) == {"extractor", "extractor_model"}
    labels = {mention[3] for mention in _mentions(single)}
    assert labels - SUBJECT_LABELS == {"PERSON"}


def _mentions(rag):
    for stored in rag.store.all_nodes():
        found = rag.store.mentions_at(rag.store.generation, [stored.node.id])
        for sentence in found[stored.node.id]:
            yield from sentence


def test_a_pickle_keeps_extractors_by_name(open_mixed):
    rag = open_mixed(extractor={"fr": "fr_core_news_sm"}, language="zh")
    rag.add(DREAM)
    with pickle.loads(pickle.dumps(rag)) as copy:  # noqa: S301 - our own
        assert copy._index.language == "zh"
        assert copy._index.components._router.extractor("fr").model == "fr_core_news_sm"


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "extractor", [RuleBasedExtractor("de"), {"de": RuleBasedExtractor("de"), "fr": "fr_core"}]
)
def test_a_pickle_keeps_the_extractor_by_rules(open_mixed, extractor):
    rag = open_mixed(extractor=extractor)
    rag.add(WALD)
    with pickle.loads(pickle.dumps(rag)) as copy:  # noqa: S301 - our own
        assert (
            copy.retrieve("Wo wohnt Anna Meier?").context()
            == rag.retrieve("Wo wohnt Anna Meier?").context()
        )
        copy.add(SourceDocument("wald2", WALD.text + " Hamburg schlief."))


# Warnings


def warnings_of(caplog):
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_the_fallback_is_announced_once(open_mixed, caplog):
    rag = open_mixed()
    rag.add([TEA, DREAM])
    assert warnings_of(caplog) == []
    rag.add(WALD)
    rag.add(SourceDocument("wald2", WALD.text))
    [warning] = warnings_of(caplog)
    assert "there is no pipeline for German (1 document)," in warning
    assert 'extractor={"de": "de_core_news_sm"}' in warning


def test_one_warning_covers_all_languages_of_a_run(open_mixed, caplog):
    chat = "Quand Jeanne Martin ouvrit la porte à Lyon, le chat avait mangé le poisson et dormait."
    open_mixed().add([WALD, SourceDocument("chat", chat), SourceDocument("chat2", chat)])
    [warning] = warnings_of(caplog)
    assert "French (2 documents) and German (1)" in warning


def test_unclear_texts_are_in_the_main_language_of_the_index(open_mixed):
    rag = open_mixed(language="auto")
    rag.add([SourceDocument("de", WALD.text), SourceDocument("short", "Wo liegt Hamburg?")])
    rag.add(
        [
            SourceDocument("later", "Wer wohnt in Bremen?"),
            SourceDocument("en", TEA.text + " They were late, and it was cold."),
        ]
    )
    languages = {one: rag.document(one).language for one in ("de", "short", "later", "en")}
    assert languages == {"de": "de", "short": "de", "later": "de", "en": "en"}
    with open_mixed("second.e2g") as english:
        english.add(SourceDocument("en", TEA.text + " They were late, and it was cold."))
        english.add(SourceDocument("short", "Wo liegt Hamburg?"))
        assert english.document("short").language == "en"


def test_a_language_that_does_not_fit_is_announced(open_mixed, caplog):
    rag = open_mixed()
    rag.add([SourceDocument("a", DREAM.text, language="en"), SourceDocument("b", "1. 2. 3.")])
    [warning] = warnings_of(caplog)
    assert "'a' is said to be in English (en), but most letters are in the script Hani" in warning
    assert rag.verify().ok


def test_an_extractor_that_does_not_fit_is_announced(open_mixed, caplog):
    with open_mixed(extractor="en_e2g_sm") as rag:
        rag.add([TEA, DREAM])
    [warning] = warnings_of(caplog)
    assert "the extractor is for English (en), but 1 document(s) are in Chinese (zh)" in warning
    caplog.clear()
    with open_mixed("b.e2g", extractor=NameExtractor()) as rag:
        rag.add([TEA, SourceDocument("c", DREAM.text * 20)])
    [warning] = warnings_of(caplog)
    assert "does not fit Chinese (zh): it found only 0 name(s) and nouns" in warning
    assert 'extractor={"en": ...}), so that other languages have their default' in warning


# Real vectors


def test_a_mixed_index_works_with_real_vectors(open_mixed, real_embedder):
    rag = open_mixed(embedder=real_embedder)
    rag.add(DOCUMENTS)
    assert rag.retrieve("Who gave Alice a cup of tea?").nodes[0].document_id == "tea"
    assert rag.retrieve("林黛玉住在哪里？").nodes[0].document_id == "dream"


# Command line


def test_the_command_line_shows_and_filters_languages(tmp_path, capsys):
    for document in DOCUMENTS:
        (tmp_path / f"{document.id}.txt").write_text(document.text, encoding="utf-8")
    out = str(tmp_path / "i.e2g")
    assert main(["index", str(tmp_path), "--out", out, "--embedder", "hashing"]) == 0
    capsys.readouterr()
    assert main(["indexes", "stats", out]) == 0
    assert "languages: " in capsys.readouterr().out
    assert main(["query", out, "贾宝玉是谁？", "--where", "language=zh", "--explain"]) == 0
    printed = capsys.readouterr().out
    assert "dream.txt" in printed
    assert "language: zh" in printed
    assert "tea.txt" not in printed
    assert main(["index", str(tmp_path), "--out", out, "--language", "xx"]) == 2
    assert "'xx' is not the code of a language" in capsys.readouterr().err
    assert main(["documents", "update", out, str(tmp_path / "wald.txt"), "--language", "nl"]) == 0
    with E2GraphRAG.open(out, embedder=HashingEmbedder()) as rag:
        assert rag.store.languages() == {"dream.txt": "zh", "tea.txt": "en", "wald.txt": "nl"}
