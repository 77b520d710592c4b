"""Components: a file opens with the models that built it, and with no others."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import (
    CallableSummarizer,
    E2GraphRAG,
    ExtractiveSummarizer,
    HashingEmbedder,
    IndexSettings,
    PaperStrategy,
    Prompts,
    SentenceTransformerEmbedder,
    SourceDocument,
    SpacyEntityExtractor,
)
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import (
    E2GraphRAGError,
    EmbeddingError,
    InvalidInputError,
    SettingsMismatchError,
    SummaryError,
)
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.store.lock import IndexLock
from fakes import AnonymousEmbedder, CountingLLM, LineCounter, NameExtractor, numbered

FOUR = {"chunk_size": 4, "chunk_overlap": 0}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "i.e2g"


def test_a_reopened_index_uses_the_models_that_built_it(path):
    with E2GraphRAG.open(
        path, embedder="hashing", settings=IndexSettings(chunk_size=30, chunk_overlap=5)
    ) as rag:
        rag.add(SourceDocument("d", "Sherlock Holmes met Mary Morstan in London."))
        expected = rag.retrieve("Did Sherlock Holmes meet Mary Morstan?").nodes
        assert "Holmes" in expected[0].text
    with E2GraphRAG.open(path) as rag:
        assert rag.settings.chunk_size == 30
        assert rag.retrieve("Did Sherlock Holmes meet Mary Morstan?").nodes == expected
        rag.add(SourceDocument("e", "Mary Morstan left London."))
        settings = rag.stats().settings
    assert settings["embedder_model"] == "hashing"
    assert settings["extractor_model"] == "en_e2g_sm"
    assert settings["extractor"].startswith("spacy:en_e2g_sm")
    assert settings["chunk_size"] == "30"


def test_the_defaults_are_minilm_and_the_bundled_pipeline():
    components = Components("x", {})
    assert isinstance(components.embedder.embedder, SentenceTransformerEmbedder)
    assert components.embedder.embedder.model == "all-MiniLM-L6-v2"
    assert isinstance(components._router.extractor("en"), SpacyEntityExtractor)
    assert components._router.extractor("en").model == "en_e2g_sm"
    assert isinstance(components.summarizer, ExtractiveSummarizer)


def test_opening_loads_no_model(path, open_index, monkeypatch):
    from e2graphrag_integrations.embedders import sentence_transformers as embedders
    from e2graphrag_integrations.entities import spacy_extractor as extraction

    open_index(path).close()

    def refuse(*_):
        raise AssertionError("loaded")

    monkeypatch.setattr(embedders, "_load_model", refuse)
    monkeypatch.setattr(extraction, "_load", refuse)
    with E2GraphRAG.open(path) as rag:
        assert rag.stats().documents == 0
        assert rag.verify().ok


def test_opening_with_another_dimension_fails_and_names_both(path, open_index):
    open_index(path, embedder=HashingEmbedder(256)).add(numbered(3))
    with pytest.raises(SettingsMismatchError) as caught:
        open_index(path, embedder=HashingEmbedder(64))
    assert "hashing:1:256" in str(caught.value)
    assert "hashing:1:64" in str(caught.value)
    assert str(path) in str(caught.value)


def test_another_dimension_without_a_fingerprint_fails_and_names_both(path, open_index):
    open_index(path, embedder=AnonymousEmbedder(16)).add(numbered(3))
    with pytest.raises(SettingsMismatchError, match=r"dimension 16.*returns dimension 24"):
        open_index(path, embedder=AnonymousEmbedder(24))


def test_another_model_name_fails_without_loading_the_model(path, open_index):
    open_index(path, embedder="hashing").add(numbered(3))
    with pytest.raises(SettingsMismatchError, match="BAAI/bge-m3"):
        open_index(path, embedder="BAAI/bge-m3")


def test_an_embedder_without_a_fingerprint_is_identified_by_its_vectors(path, open_index):
    with open_index(path, embedder=AnonymousEmbedder(16)) as rag:
        rag.add(numbered(3))
        expected = rag.retrieve("ends").nodes
    assert open_index(path, embedder=AnonymousEmbedder(16)).retrieve("ends").nodes == expected


def test_another_model_with_the_same_dimension_is_rejected(path, open_index):
    open_index(path, embedder=AnonymousEmbedder(16)).add(numbered(3))
    rag = open_index(path, embedder=AnonymousEmbedder(16, shift=5))
    with pytest.raises(SettingsMismatchError, match="embedder"):
        rag.retrieve("ends")
    with pytest.raises(SettingsMismatchError, match="embedder"):
        rag.add(numbered(3, "more"))
    assert rag.document_ids == ["numbered"]


def test_an_embedder_without_a_name_must_be_passed_again(path):
    parts = {"extractor": NameExtractor(), **FOUR}
    with E2GraphRAG.open(path, **grouped({"embedder": HashingEmbedder(48), **parts})) as rag:
        rag.add(numbered(3))
    with E2GraphRAG.open(path, **grouped(parts)) as rag:
        assert rag.stats().documents == 1
        with pytest.raises(SettingsMismatchError, match="pass embedder="):
            rag.retrieve("ends")


def test_an_extractor_without_a_name_must_be_passed_again(path, open_index):
    open_index(path, embedder="hashing", **FOUR).add(numbered(3))
    with E2GraphRAG.open(path) as rag:
        with pytest.raises(SettingsMismatchError, match=r"pass models=Models\(extractor=\.\.\.\)"):
            rag.retrieve("Item")
        assert rag.retrieve("Item", mode="global").nodes


def test_another_extractor_is_rejected(path, open_index):
    class Other(NameExtractor):
        fingerprint = "fake:other"

    open_index(path).add(numbered(3))
    rag = open_index(path, extractor=Other())
    with pytest.raises(SettingsMismatchError, match="fake:names, not fake:other"):
        rag.retrieve("Item")


@pytest.mark.parametrize(
    "setting", [{"chunk_size": 99}, {"chunk_overlap": 1}, {"group_size": 4}, {"summary_tokens": 9}]
)
def test_another_setting_is_rejected_and_both_values_are_named(path, open_index, setting):
    open_index(path).add(numbered(3))
    [(name, value)] = setting.items()
    with pytest.raises(SettingsMismatchError, match=rf"{name}=\d+, not {value}"):
        open_index(path, **setting)


def test_another_summarizer_can_query_but_not_add(path, open_index):
    with open_index(path, summarizer=CountingLLM(), llm_id="one") as rag:
        rag.add(numbered(3))
        expected = rag.retrieve("Item").nodes
    other = open_index(path)  # extractive
    assert other.retrieve("Item").nodes == expected
    for change in (
        lambda: other.add(numbered(3, "more")),
        lambda: other.update(SourceDocument("numbered", "Item 1 is new.")),
    ):
        with pytest.raises(SettingsMismatchError, match=r"callable:one.*extractive"):
            change()
    assert other.retrieve("Item").nodes == expected
    other.delete("numbered")
    assert other.document_ids == []


def test_another_token_counter_cannot_add(path, open_index):
    open_index(path).add(numbered(3))
    other = open_index(path, token_counter=LineCounter())
    with pytest.raises(SettingsMismatchError, match="token_counter"):
        other.add(numbered(3, "more"))


def test_two_instances_on_an_empty_file_cannot_mix_models(path, open_index):
    one = open_index(path, embedder=HashingEmbedder(256))
    other = open_index(path, embedder=HashingEmbedder(16))
    third = open_index(path, chunk_size=99)
    one.add(numbered(3))
    with pytest.raises(SettingsMismatchError, match="embedder"):
        other.add(numbered(3, "more"))
    with pytest.raises(SettingsMismatchError, match="chunk_size"):
        third.add(numbered(3, "more"))
    assert one.retrieve("Item").nodes
    assert one.verify().ok


def test_models_are_checked_again_when_a_document_is_written(path, open_index):
    other = open_index(path, embedder=HashingEmbedder(16))
    other.store.database.index_lock = IndexLock(":memory:", 0)  # as on a file system without locks
    llm = CountingLLM()

    def summarize(prompt):
        if not llm.calls:
            other.add(SourceDocument("quicker", "Anna sat."))
        return llm(prompt)

    rag = open_index(path, summarizer=summarize, **FOUR)
    with pytest.raises(SettingsMismatchError, match=str(path)):
        rag.add(numbered(3))
    assert rag.document_ids == ["quicker"]
    assert other.retrieve("Anna").nodes
    assert other.verify().ok


def test_a_failed_first_add_does_not_fix_the_models(path, open_index):
    def summarize(prompt):
        raise RuntimeError("no")

    with open_index(path, embedder=HashingEmbedder(7), summarizer=summarize, **FOUR) as rag:
        with pytest.raises(SummaryError, match="no"):
            rag.add(numbered(3))
        assert path.stat().st_size > 0
    with open_index(path, chunk_size=30) as rag:
        rag.add(numbered(3))
        assert rag.stats().dimension == 256
        assert rag.verify().ok  # the failed add left results in the cache


def test_an_emptied_index_accepts_other_models(path, open_index):
    with open_index(path, embedder=HashingEmbedder(16)) as rag:
        rag.add(numbered(3))
        rag.delete("numbered")
    with open_index(path, embedder=HashingEmbedder(32), chunk_size=30) as rag:
        rag.add(numbered(3))
        assert rag.retrieve("Item").nodes
        assert rag.stats().settings["chunk_size"] == "30"


class SummarizerClass:
    """Passed as a class instead of an object."""

    def summarize(self, texts, *, level, max_tokens):
        return "Text."


class NoMethods:
    pass


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({"embedder": NoMethods()}, "dimension, embed, embed_query, max_tokens"),
        ({"embedder": HashingEmbedder}, "embed"),
        ({"extractor": NoMethods()}, "extract"),
        ({"extractor": NameExtractor}, "extract"),
        ({"token_counter": NoMethods()}, "count, spans"),
        ({"summarizer": NoMethods()}, "neither callable"),
        ({"summarizer": CountingLLM}, "neither callable"),
        ({"chunk_size": 0}, "chunk_size=0"),
        ({"chunk_overlap": 16}, "chunk_overlap=16"),
        ({"group_size": 1}, "group_size=1"),
        ({"summary_tokens": 0}, "summary_tokens=0"),
        ({"chunk_size": 5.5}, "chunk_size=5.5"),
        ({"chunk_size": True}, "chunk_size=True"),
        ({"chunk_size": 2**63}, "chunk_size=9223372036854775808 must be a whole number from 1 to"),
        ({"concurrency": 0}, "concurrency=0"),
        ({"concurrency": True}, "concurrency=True"),
        ({"embedder": " "}, "embedder must be a non-empty string"),
        ({"extractor": ""}, "extractor must be a non-empty string"),
        ({"token_counter": 0}, "token_counter (int) lacks a member"),
        ({"strategy": 0}, "strategy=0 has no method rank"),
        ({"strategy": PaperStrategy}, "has no method rank"),
        ({"summarizer": SummarizerClass}, "neither callable"),
        ({"llm_id": ""}, "llm_id must be a non-empty string"),
        ({"llm_id": "\ud800"}, "llm_id contains a lone surrogate"),
        ({"llm_id": 5}, "llm_id must be a string"),
        ({"prompts": "Summarize {text}"}, "must be a Prompts"),
        ({"retry": 5}, "retry=5 must be a RetryPolicy"),
        ({"lock_timeout": "x"}, "lock_timeout='x'"),
        ({"lock_timeout": None}, "lock_timeout=None"),
        ({"lock_timeout": -1}, "lock_timeout=-1"),
        ({"lock_timeout": float("nan")}, "lock_timeout=nan"),
    ],
)
def test_an_invalid_argument_is_named_and_no_file_is_created(tmp_path, open_index, options, needed):
    with pytest.raises(InvalidInputError) as caught:
        open_index(tmp_path / "new.e2g", **options)
    assert needed in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_argument_is_refused_with_the_closest_name(open_index, tmp_path):
    with pytest.raises(InvalidInputError, match="did you mean 'chunk_size'"):
        open_index(tmp_path / "new.e2g", chunk_sise=5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path", [None, 5, b"bytes.e2g", [], object(), "", "a\0b", "a" * 5000, b"x".join]
)
def test_an_unusable_path_is_rejected(open_index, path):
    with pytest.raises(InvalidInputError, match="path="):
        open_index(path)


class BrokenEmbedder(AnonymousEmbedder):
    """Fails only when it is called."""

    def embed(self, texts):
        raise ZeroDivisionError("oops")


class WithoutDimension(AnonymousEmbedder):
    """Raises on access to `dimension`, like a model that cannot be loaded."""

    fingerprint = "without"
    dimension = property(lambda _: 1 / 0, lambda *_: None)


def an_embedder(**attributes):
    made = AnonymousEmbedder()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        *(
            (lambda v=value: an_embedder(dimension=v), InvalidInputError, r"\.dimension=")
            for value in (None, "x", [8], 8.7, 0)
        ),
        (lambda: an_embedder(max_tokens="x"), InvalidInputError, r"\.max_tokens='x'"),
        (lambda: an_embedder(tokens="x"), InvalidInputError, r"\.tokens \(str\) lacks a member"),
        (
            BrokenEmbedder,
            EmbeddingError,
            r"BrokenEmbedder\.embed\(\) failed: ZeroDivisionError: oops",
        ),
        (WithoutDimension, E2GraphRAGError, "ZeroDivisionError"),
    ],
)
def test_an_embedder_that_fails_on_first_use_writes_nothing(path, open_index, make, error, match):
    with pytest.raises(error, match=match):  # at open or at add, by the version of Python
        open_index(path, embedder=make()).add(numbered(3))
    assert not path.exists() or open_index(path).document_ids == []


class Anonymous:
    """A summarizer object without a fingerprint."""

    def __init__(self, name):
        self.name, self.calls = name, 0

    def summarize(self, texts, *, level, max_tokens):
        self.calls += 1
        return f"{self.name} says {len(texts[0])}."


def summaries_of(rag):
    return {n.text for n in rag.retrieve("Item", k=99, mode="global").nodes if n.level}


def test_two_summarizers_of_one_class_do_not_share_summaries(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    with open_index(path, summarizer=Anonymous("one"), **FOUR) as rag:
        rag.add(numbered(6))
    second = Anonymous("two")
    with open_index(path, summarizer=second, **FOUR) as rag:
        rag.add(numbered(6, "again"))
        assert second.calls == 2
        assert {text.split()[0] for text in summaries_of(rag)} == {"one", "two"}


def test_a_summarizer_id_keeps_the_summaries_of_an_object(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    for name, calls in (("one", 2), ("one too", 0)):
        model = Anonymous(name)
        with open_index(path, summarizer=model, llm_id="model", **FOUR) as rag:
            rag.add(numbered(6, name))
        assert model.calls == calls


def test_the_summarizer_id_of_a_wrapped_function_is_used(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    for name, calls in (("one", 2), ("two", 0)):
        llm = CountingLLM()
        wrapped = CallableSummarizer(llm, llm_id="x")
        with open_index(path, summarizer=wrapped, **FOUR) as rag:
            rag.add(numbered(6, name))
        assert llm.calls == calls


@pytest.mark.parametrize(
    "options",
    [
        {"llm_id": "x"},
        {"prompts": Prompts()},
        {"summarizer": Anonymous("one"), "prompts": Prompts()},
        {"summarizer": CallableSummarizer(str, llm_id="a"), "llm_id": "b"},
    ],
)
def test_options_that_the_summarizer_would_ignore_are_rejected(open_index, options):
    with pytest.raises(InvalidInputError, match="works only with a"):
        open_index(**options)


def test_a_query_fails_if_another_process_changed_the_embedder(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    reader = open_index(path, embedder=AnonymousEmbedder(shift=1))
    open_index(path, embedder=AnonymousEmbedder()).add(numbered(6))
    with pytest.raises(SettingsMismatchError, match="embedder"):
        reader.retrieve("Item", mode="global")


def test_a_query_fails_if_another_process_changed_the_extractor(tmp_path, open_index):
    class Other(NameExtractor):
        fingerprint = "fake:other"

    path = tmp_path / "i.e2g"
    reader = open_index(path, extractor=Other())
    open_index(path).add(numbered(6))
    with pytest.raises(SettingsMismatchError, match="extractor"):
        reader.retrieve("Item")


def test_two_tokenizers_have_different_fingerprints(
    tmp_path, open_index, wordpiece_counter, bytes_counter
):
    path = tmp_path / "i.e2g"
    with open_index(path, token_counter=wordpiece_counter) as rag:
        rag.add(numbered(6))
    with (
        open_index(path, token_counter=bytes_counter) as rag,
        pytest.raises(SettingsMismatchError, match="token_counter"),
    ):
        rag.add(numbered(6, "again"))
