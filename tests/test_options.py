"""The option objects: declared once, and accepted by every `open` under the same names."""

from __future__ import annotations

import copy
import inspect
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    E2GraphRAG,
    FreshnessPolicy,
    IndexSettings,
    Models,
    RetryPolicy,
    SourceDocument,
    WriteOptions,
    langchain,
    llama_index,
)
from e2graphrag_integrations.errors import InvalidInputError, LLMCallLimitError
from e2graphrag_integrations.options import grouped, ungrouped
from e2graphrag_integrations.settings import Settings
from fakes import NameExtractor

OBJECTS = {
    "settings": IndexSettings,
    "models": Models,
    "writes": WriteOptions,
    "freshness": FreshnessPolicy,
}
FRAMEWORK = {"nodes", "objects", "index_struct", "storage_context"} | {
    *("show_progress", "callback_manager", "transformations")
}
"""Arguments of LlamaIndex's own base class."""


@pytest.mark.parametrize(
    "open_",
    [
        E2GraphRAG.open,
        langchain.E2GraphRAGIndex.open,
        llama_index.E2GraphRAGIndex.__init__,
    ],
)
def test_every_open_takes_the_same_objects_and_at_most_twelve_parameters(open_):
    parameters = inspect.signature(open_).parameters
    own = [
        name
        for name, one in parameters.items()
        if name not in {"self", "cls"} | FRAMEWORK and one.kind is not one.VAR_KEYWORD
    ]
    assert set(OBJECTS) < set(own)
    assert len(own) <= 12


def test_no_option_has_two_objects():
    names = [one.name for kind in OBJECTS.values() for one in fields(kind)]
    assert len(names) == len(set(names))


def test_every_recorded_setting_is_an_option():
    assert {one.name for one in fields(Settings)} <= {one.name for one in fields(IndexSettings)}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "embedder": st.just("hashing"),
            "chunk_size": st.integers(1, 99),
            "group_size": st.integers(2, 9),
            "scope_keys": st.just(("tenant",)),
            "language": st.sampled_from(["de", "zh"]),
            "concurrency": st.integers(5, 9),
            "retry": st.just(RetryPolicy(attempts=2)),
            "max_staleness": st.floats(0, 9),
            "read_your_writes": st.sampled_from([False]),
        },
    )
)
def test_grouped_options_can_be_ungrouped(flat):
    assert dict(ungrouped(grouped(flat))) == flat


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_of_another_kind_is_refused(name):
    with pytest.raises(InvalidInputError, match=rf"{name}=.*{OBJECTS[name].__name__}"):
        E2GraphRAG.open(":memory:", **{name: {"chunk_size": 3}})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"max_llm_calls": -1}, "max_llm_calls"),
        ({"retry": 3}, "retry"),
        ({"lock_timeout": -1}, "lock_timeout"),
        ({"show_progress": "yes"}, "show_progress"),
    ],
)
def test_an_invalid_write_option_is_refused_where_it_is_made(options, message):
    with pytest.raises(InvalidInputError, match=message):
        WriteOptions(**options)


def test_sizes_that_contradict_each_other_are_refused(tmp_path):
    settings = IndexSettings(chunk_size=20, chunk_overlap=0)
    with pytest.raises(InvalidInputError, match="chunk_size=30 contradicts"):
        E2GraphRAG.open(tmp_path / "a.e2g", chunk_size=30, settings=settings)
    assert not [*tmp_path.iterdir()]
    for size in (None, 20):
        with E2GraphRAG.open(
            ":memory:", embedder="hashing", chunk_size=size, settings=settings
        ) as rag:
            assert rag.settings.chunk_size == 20


def test_an_unknown_engine_is_refused_before_a_file_is_created(tmp_path):
    with pytest.raises(InvalidInputError, match="engine='spark'"):
        E2GraphRAG.open(tmp_path / "a.e2g", writes=WriteOptions(engine="spark"))
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "options",
    [{"settings": IndexSettings(tree_per="corpus")}, {"models": Models(embed_max_tokens=9)}],
)
def test_options_for_the_frameworks_are_refused_by_the_core(options):
    with pytest.raises(InvalidInputError, match="LlamaIndex and LangChain"):
        E2GraphRAG.open(":memory:", **options)


def test_a_call_limit_of_the_index_holds_for_every_write_and_can_be_replaced():
    calls = []

    def summarize(prompt):
        calls.append(prompt)
        return "A summary."

    text = " ".join(f"Anna met Bert {n} times in Oslo." for n in range(40))
    story = SourceDocument("story", text)
    with E2GraphRAG.open(
        ":memory:",
        embedder="hashing",
        summarizer=summarize,
        settings=IndexSettings(chunk_size=16, chunk_overlap=0),
        models=Models(extractor=NameExtractor(), llm_id="fixed"),
        writes=WriteOptions(max_llm_calls=1),
    ) as rag:
        with pytest.raises(LLMCallLimitError, match="max_llm_calls=1"):
            rag.add(story)
        assert not calls
        assert rag.add(story, max_llm_calls=100).llm_calls == len(calls) > 1
        with pytest.raises(LLMCallLimitError):
            rag.update(replace(story, text=text.replace("Oslo", "Rome")))


@pytest.mark.parametrize("options", [{}, {"chunk_size": 200}])
def test_copies_keep_every_option(options):
    given = {
        "settings": IndexSettings(scope_keys=["tenant"], splitter=split, split_segments=True),
        "models": Models(language="de", extractor=NameExtractor()),
        "writes": WriteOptions(max_llm_calls=0, show_progress=True),
        "freshness": FreshnessPolicy(max_staleness=3),
    }
    with E2GraphRAG.open(":memory:", embedder="hashing", **given, **options) as rag:
        copies = [copy.deepcopy(rag), copy.deepcopy(copy.deepcopy(rag))]
        for other in copies:
            with other:
                assert other.settings == rag.settings
                assert other._writes == rag._writes
                assert other._arguments == rag._arguments


def split(text):
    return [(0, len(text))]


@pytest.mark.parametrize("face", [langchain.E2GraphRAGIndex, llama_index.E2GraphRAGIndex])
def test_copies_of_the_faces_keep_every_option(face):
    options = {
        "settings": IndexSettings(scope_keys=["tenant"], tree_per=shelf_of),
        "writes": WriteOptions(max_llm_calls=0),
        "freshness": FreshnessPolicy(max_staleness=3),
    }
    name = "embeddings" if face is langchain.E2GraphRAGIndex else "embed_model"
    index = (
        face.open(":memory:", **{name: "hashing"}, **options)
        if face is langchain.E2GraphRAGIndex
        else face.from_documents([], **{name: "hashing"}, **options)
    )
    with index, copy.deepcopy(index) as other:
        assert other.rag.settings == index.rag.settings
        assert other._arguments == index._arguments


def shelf_of(document):
    return document.metadata.get("shelf", "low")


def test_an_option_at_the_wrong_place_says_where_it_belongs():
    with pytest.raises(InvalidInputError, match=r"did you mean models=Models\(language=\.\.\.\)"):
        E2GraphRAG.open(":memory:", language="en")
    index = llama_index.E2GraphRAGIndex.from_documents([], embed_model="hashing")
    for call in (index.insert, index.insert_nodes, index.refresh_ref_docs):
        with pytest.raises(InvalidInputError, match=r"WriteOptions\(max_llm_calls=\.\.\.\)"):
            call([], max_llm_calls=0)


def test_workers_refuse_a_limit_of_one_write(tmp_path):
    path = tmp_path / "a.e2g"
    with (
        E2GraphRAG.open(path, embedder="hashing", writes=WriteOptions(max_llm_calls=3)) as rag,
        pytest.raises(InvalidInputError, match="max_llm_calls=3"),
    ):
        rag.work()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (IndexSettings, {"split_segments": "no"}),
        (Models, {"embed_max_tokens": -1}),
        (Models, {"llm_id": 3}),
        (Models, {"llm_id": "  "}),
    ],
)
def test_an_invalid_field_is_refused_by_its_object(kind, options):
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        kind(**options)


def test_show_progress_draws_a_bar_without_a_listener(capsys):
    def add(**options):
        with E2GraphRAG.open(
            ":memory:", embedder="hashing", models=Models(extractor=NameExtractor()), **options
        ) as rag:
            rag.add(SourceDocument("a", "Anna met Bert."))
            rag.add(SourceDocument("b", "Cleo met Dora."), progress=lambda _: None)
        return capsys.readouterr().err

    assert "loading models" in add(writes=WriteOptions(show_progress=True))
    assert add() == ""
