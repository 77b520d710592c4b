"""Ids that are there or given twice, copies under other ids: what is done is what was asked."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import DuplicateDocumentError, InvalidInputError
from fakes import CountingEmbedder, CountingExtractor, CountingLLM, numbered

FOUR = {"chunk_size": 4, "chunk_overlap": 0}
OLD, NEW = numbered(6, "a"), numbered(7, "a", first=50)
OTHER = numbered(3, "b", first=90)


@pytest.fixture
def counted(open_index):
    """Open an index that counts calls of all its parts, and return it with the counts."""
    llm, extractor, embedder = CountingLLM(), CountingExtractor(), CountingEmbedder()
    rag = open_index(summarizer=llm, extractor=extractor, embedder=embedder, **FOUR)
    rag.add(OLD)
    return rag, lambda: (llm.calls, len(extractor.texts), len(embedder.texts))


def test_error_refuses_all_when_an_id_is_there(counted):
    rag, paid = counted
    before, cost = list(rag.export()), paid()
    with pytest.raises(DuplicateDocumentError, match=r"already has a document 'a' with other"):
        rag.add([OTHER, NEW])
    assert list(rag.export()) == before
    assert paid() == cost
    assert [state.id for state in rag.status()] == ["a"]


def test_skip_keeps_what_is_there_and_adds_the_rest(counted):
    rag, _ = counted
    report = rag.add([NEW, OTHER], on_duplicate="skip")
    assert (report.documents, report.skipped) == (1, ("a",))
    assert rag.document("a") == OLD
    assert rag.document_ids == ["a", "b"]


def test_skip_costs_nothing_for_what_it_skips(counted):
    rag, paid = counted
    cost = paid()
    assert rag.add(NEW, on_duplicate="skip").skipped == ("a",)
    assert paid() == cost
    assert [state.status for state in rag.status()] == ["done"]


def test_replace_equals_an_index_of_the_new_version(counted, open_index):
    rag, _ = counted
    report = rag.add([NEW, OTHER], on_duplicate="replace")
    assert (report.documents, report.skipped) == (2, ())
    fresh = open_index(summarizer=CountingLLM(), **FOUR)
    fresh.add([NEW, OTHER])
    assert list(rag.export()) == list(fresh.export())
    assert rag.verify().ok


@pytest.mark.parametrize("on_duplicate", ["error", "skip", "replace"])
def test_what_is_there_unchanged_is_skipped_whatever_was_asked(counted, on_duplicate):
    rag, paid = counted
    cost = paid()
    report = rag.add(OLD, on_duplicate=on_duplicate)
    assert (report.documents, report.skipped) == (0, ("a",))
    assert paid() == cost


@pytest.mark.parametrize("given", [[OTHER, NEW, NEW], [NEW, OTHER, OLD]])
def test_error_refuses_an_id_given_twice_even_for_one_content(open_index, given):
    rag = open_index(**FOUR)
    with pytest.raises(DuplicateDocumentError, match="'a' is given twice"):
        rag.add(given)
    assert rag.status() == []


@pytest.mark.parametrize(("on_duplicate", "kept"), [("skip", OLD), ("replace", NEW)])
def test_of_an_id_given_twice_one_version_is_kept(open_index, on_duplicate, kept):
    rag = open_index(**FOUR)
    report = rag.add([OLD, OTHER, NEW], on_duplicate=on_duplicate)
    assert (report.documents, report.skipped, report.failed) == (2, (), {})
    assert rag.document("a") == kept
    assert report.chunks == len(kept.text.split(". ")) + 3


def test_replace_takes_the_last_version_though_the_first_is_there(counted):
    rag, paid = counted
    cost = paid()
    report = rag.add([OLD, NEW, OLD], on_duplicate="replace")
    assert report.skipped == ("a",)
    assert paid() == cost
    report = rag.add([OLD, NEW], on_duplicate="replace")
    assert report.documents == 1
    assert rag.document("a") == NEW


async def test_aadd_does_as_add_does(counted):
    rag, _ = counted
    with pytest.raises(DuplicateDocumentError):
        await rag.aadd(NEW)
    assert (await rag.aadd([NEW, NEW], on_duplicate="skip")).skipped == ("a",)
    assert (await rag.aadd([NEW, NEW], on_duplicate="replace")).documents == 1
    copy = SourceDocument("copy", NEW.text)
    assert (await rag.aadd(copy, on_copy="skip")).skipped == ("copy",)
    assert rag.document("a") == NEW


# Copies


def copy_of(document, document_id):
    return SourceDocument(
        document_id, document.text, document.title, document.metadata, document.segments
    )


def test_a_copy_costs_no_call_and_no_vector(counted, open_index):
    rag, paid = counted
    cost = paid()
    assert rag.estimate(copy_of(OLD, "copy")).llm_calls == 0
    report = rag.add(copy_of(OLD, "copy"))
    assert (report.documents, report.chunks, report.embedded, report.llm_calls) == (1, 6, 0, 0)
    assert paid() == cost
    fresh = open_index(summarizer=CountingLLM(), **FOUR)
    fresh.add([OLD, copy_of(OLD, "copy")])
    assert list(rag.export()) == list(fresh.export())


def test_copies_given_together_cost_one(open_index):
    llm, embedder = CountingLLM(), CountingEmbedder()
    rag = open_index(summarizer=llm, embedder=embedder, **FOUR)
    report = rag.add([copy_of(OLD, name) for name in "xyz"])
    assert (report.documents, report.summaries, llm.calls) == (3, 6, 2)
    assert len(embedder.texts) == 6 + 2


def test_skip_leaves_copies_out_whether_there_or_given(counted):
    rag, _ = counted
    given = [copy_of(OLD, "c"), OTHER, copy_of(OTHER, "d"), copy_of(OTHER, "e")]
    report = rag.add(given, on_copy="skip")
    assert (report.documents, report.skipped) == (1, ("c", "d", "e"))
    assert rag.document_ids == ["a", "b"]
    assert [state.id for state in rag.status()] == ["a", "b"]


@pytest.mark.parametrize(
    "other",
    [
        SourceDocument("c", OLD.text + " "),
        SourceDocument("c", OLD.text, title="T"),
        SourceDocument("c", OLD.text, metadata={"k": 1}),
        SourceDocument("c", OLD.text, segments=[(0, 3, {})]),
    ],
)
def test_what_differs_in_anything_is_no_copy(counted, other):
    rag, _ = counted
    assert rag.add(other, on_copy="skip").documents == 1
    assert rag.document("c") == other


def test_the_order_of_metadata_makes_no_difference(open_index):
    rag = open_index(**FOUR)
    rag.add(SourceDocument("a", "Anna.", metadata={"x": 1, "y": 2}))
    copy = SourceDocument("b", "Anna.", metadata={"y": 2, "x": 1})
    assert rag.add(copy, on_copy="skip").skipped == ("b",)


def test_deleting_one_of_two_copies_leaves_the_other_whole(counted, open_index):
    rag, _ = counted
    rag.add(copy_of(OLD, "copy"))
    rag.delete("a")
    assert rag.verify().ok
    fresh = open_index(summarizer=CountingLLM(), **FOUR)
    fresh.add(copy_of(OLD, "copy"))
    assert list(rag.export()) == list(fresh.export())


def test_a_new_version_of_what_is_there_is_no_copy_to_leave_out(counted):
    rag, _ = counted
    rag.add(OTHER)
    report = rag.add(copy_of(OTHER, "a"), on_duplicate="replace", on_copy="skip")
    assert report.documents == 1
    assert rag.document("a").text == OTHER.text


def test_a_copy_of_a_version_that_is_being_replaced_is_kept(counted):
    rag, _ = counted
    rag.add([NEW, copy_of(OLD, "moved")], on_duplicate="replace", on_copy="skip")
    assert OLD.text in [rag.document(id_).text for id_ in rag.document_ids]


# What makes no sense


@pytest.mark.parametrize("value", ["overwrite", "", None, "Error", 1, ["skip"], object()])
@pytest.mark.parametrize("name", ["on_duplicate", "on_copy"])
def test_an_unknown_value_is_refused_before_anything_is_written(counted, name, value):
    rag, paid = counted
    cost, generation = paid(), rag.store.generation
    for documents in ([OTHER], []):
        with pytest.raises(InvalidInputError, match=f"{name}=.*choose one of"):
            rag.add(documents, **{name: value})
    assert paid() == cost
    assert rag.store.generation == generation
    assert [state.id for state in rag.status()] == ["a"]


def test_an_estimate_takes_an_id_given_twice_as_replace_does(open_index):
    rag = open_index(summarizer=CountingLLM(), **FOUR)
    calls = rag.estimate([OLD, NEW]).llm_calls
    assert rag.add([OLD, NEW], on_duplicate="replace").llm_calls == calls
