"""`on_duplicate` and `on_copy`: repeated ids, and equal documents under other ids."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import DuplicateDocumentError, InvalidInputError
from fakes import CountingEmbedder, CountingExtractor, CountingLLM, numbered

FOUR = {"chunk_size": 4, "chunk_overlap": 0}
OLD, NEW = numbered(6, "a"), numbered(7, "a", first=50)
OTHER = numbered(3, "b", first=90)


@pytest.fixture
def counted_index(open_index):
    """Return an index of one document and a function that counts the calls of its components."""
    llm, extractor, embedder = CountingLLM(), CountingExtractor(), CountingEmbedder()
    rag = open_index(summarizer=llm, extractor=extractor, embedder=embedder, **FOUR)
    rag.add(OLD)
    return rag, lambda: (llm.calls, len(extractor.texts), len(embedder.texts))


def test_error_rejects_all_documents_if_one_id_is_indexed(counted_index):
    rag, counts = counted_index
    exported, before = list(rag.export()), counts()
    with pytest.raises(DuplicateDocumentError, match=r"already has a document 'a' with different"):
        rag.add([OTHER, NEW])
    assert list(rag.export()) == exported
    assert counts() == before
    assert [state.id for state in rag.status()] == ["a"]


def test_skip_keeps_indexed_documents_and_adds_the_others(counted_index):
    rag, _ = counted_index
    report = rag.add([NEW, OTHER], on_duplicate="skip")
    assert (report.documents, report.skipped) == (1, ("a",))
    assert rag.document("a") == OLD
    assert rag.document_ids == ["a", "b"]


def test_skipped_documents_cost_nothing(counted_index):
    rag, counts = counted_index
    before = counts()
    assert rag.add(NEW, on_duplicate="skip").skipped == ("a",)
    assert counts() == before
    assert [state.status for state in rag.status()] == ["done"]


def test_replace_equals_a_new_index_of_the_new_version(counted_index, open_index):
    rag, _ = counted_index
    report = rag.add([NEW, OTHER], on_duplicate="replace")
    assert (report.documents, report.skipped) == (2, ())
    fresh = open_index(summarizer=CountingLLM(), **FOUR)
    fresh.add([NEW, OTHER])
    assert list(rag.export()) == list(fresh.export())
    assert rag.verify().ok


@pytest.mark.parametrize("on_duplicate", ["error", "skip", "replace"])
def test_unchanged_document_is_skipped_with_every_option(counted_index, on_duplicate):
    rag, counts = counted_index
    before = counts()
    report = rag.add(OLD, on_duplicate=on_duplicate)
    assert (report.documents, report.skipped) == (0, ("a",))
    assert counts() == before


@pytest.mark.parametrize("documents", [[OTHER, NEW, NEW], [NEW, OTHER, OLD]])
def test_error_rejects_a_repeated_id_even_with_equal_content(open_index, documents):
    rag = open_index(**FOUR)
    with pytest.raises(DuplicateDocumentError, match="'a' is given twice"):
        rag.add(documents)
    assert rag.status() == []


@pytest.mark.parametrize(("on_duplicate", "kept"), [("skip", OLD), ("replace", NEW)])
def test_skip_keeps_the_first_and_replace_the_last_version_of_a_repeated_id(
    open_index, on_duplicate, kept
):
    rag = open_index(**FOUR)
    report = rag.add([OLD, OTHER, NEW], on_duplicate=on_duplicate)
    assert (report.documents, report.skipped, report.failed) == (2, (), {})
    assert rag.document("a") == kept
    assert report.chunks == len(kept.text.split(". ")) + 3


def test_replace_keeps_the_last_version_if_the_first_is_indexed(counted_index):
    rag, counts = counted_index
    before = counts()
    report = rag.add([OLD, NEW, OLD], on_duplicate="replace")
    assert report.skipped == ("a",)
    assert counts() == before
    report = rag.add([OLD, NEW], on_duplicate="replace")
    assert report.documents == 1
    assert rag.document("a") == NEW


async def test_aadd_takes_the_same_options_as_add(counted_index):
    rag, _ = counted_index
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


def test_copy_costs_no_llm_call_and_no_embedding(counted_index, open_index):
    rag, counts = counted_index
    before = counts()
    assert rag.estimate(copy_of(OLD, "copy")).llm_calls == 0
    report = rag.add(copy_of(OLD, "copy"))
    assert (report.documents, report.chunks, report.embedded, report.llm_calls) == (1, 6, 0, 0)
    assert counts() == before
    fresh = open_index(summarizer=CountingLLM(), **FOUR)
    fresh.add([OLD, copy_of(OLD, "copy")])
    assert list(rag.export()) == list(fresh.export())


def test_copies_in_one_call_cost_one_document(open_index):
    llm, embedder = CountingLLM(), CountingEmbedder()
    rag = open_index(summarizer=llm, embedder=embedder, **FOUR)
    report = rag.add([copy_of(OLD, name) for name in "xyz"])
    assert (report.documents, report.summaries, llm.calls) == (3, 6, 2)
    assert len(embedder.texts) == 6 + 2


def test_skip_omits_copies_of_indexed_and_of_given_documents(counted_index):
    rag, _ = counted_index
    documents = [copy_of(OLD, "c"), OTHER, copy_of(OTHER, "d"), copy_of(OTHER, "e")]
    report = rag.add(documents, on_copy="skip")
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
def test_document_that_differs_in_any_field_is_not_a_copy(counted_index, other):
    rag, _ = counted_index
    assert rag.add(other, on_copy="skip").documents == 1
    assert rag.document("c") == other


def test_metadata_order_does_not_matter_for_copies(open_index):
    rag = open_index(**FOUR)
    rag.add(SourceDocument("a", "Anna.", metadata={"x": 1, "y": 2}))
    copy = SourceDocument("b", "Anna.", metadata={"y": 2, "x": 1})
    assert rag.add(copy, on_copy="skip").skipped == ("b",)


def test_deleting_one_copy_keeps_the_other_complete(counted_index, open_index):
    rag, _ = counted_index
    rag.add(copy_of(OLD, "copy"))
    rag.delete("a")
    assert rag.verify().ok
    fresh = open_index(summarizer=CountingLLM(), **FOUR)
    fresh.add(copy_of(OLD, "copy"))
    assert list(rag.export()) == list(fresh.export())


def test_replacement_is_indexed_even_if_it_copies_another_document(counted_index):
    rag, _ = counted_index
    rag.add(OTHER)
    report = rag.add(copy_of(OTHER, "a"), on_duplicate="replace", on_copy="skip")
    assert report.documents == 1
    assert rag.document("a").text == OTHER.text


def test_copy_of_a_version_being_replaced_is_kept(counted_index):
    rag, _ = counted_index
    rag.add([NEW, copy_of(OLD, "moved")], on_duplicate="replace", on_copy="skip")
    assert OLD.text in [rag.document(id_).text for id_ in rag.document_ids]


# Invalid values


@pytest.mark.parametrize("value", ["overwrite", "", None, "Error", 1, ["skip"], object()])
@pytest.mark.parametrize("name", ["on_duplicate", "on_copy"])
def test_unknown_value_is_rejected_before_any_write(counted_index, name, value):
    rag, counts = counted_index
    before, generation = counts(), rag.store.generation
    for documents in ([OTHER], []):
        with pytest.raises(InvalidInputError, match=f"{name}=.*choose one of"):
            rag.add(documents, **{name: value})
    assert counts() == before
    assert rag.store.generation == generation
    assert [state.id for state in rag.status()] == ["a"]


def test_estimate_treats_a_repeated_id_like_replace(open_index):
    rag = open_index(summarizer=CountingLLM(), **FOUR)
    calls = rag.estimate([OLD, NEW]).llm_calls
    assert rag.add([OLD, NEW], on_duplicate="replace").llm_calls == calls
