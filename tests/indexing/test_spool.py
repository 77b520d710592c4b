"""Large writes: the documents of an iterator wait in a temporary file."""

from __future__ import annotations

import gc
import tempfile

import pytest

from e2graphrag_integrations import SourceDocument, Span
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    StoreError,
    UnknownDocumentError,
)
from e2graphrag_integrations.indexing import inputs, planning
from e2graphrag_integrations.indexing.inputs import as_documents, declare_language, with_languages
from e2graphrag_integrations.indexing.spool import SelectedDocuments, SpooledDocuments
from e2graphrag_integrations.store.queue import read_queue

MANY = [
    SourceDocument(
        f"d{n}",
        f"Anna met Bert {n} times. Then Cleo of Graz 西安 left.",
        f"Title {n}" if n % 2 else None,
        {"n": n, "list": [1.5, None, "é"]},
        [(0, 4, {"page": n})],
        "de" if n % 7 == 0 else None,
    )
    for n in range(60)
]


@pytest.fixture(autouse=True)
def spool_everything(monkeypatch):
    monkeypatch.setattr(inputs, "_MAX_CHARACTERS_IN_MEMORY", 0)


@pytest.fixture
def in_memory():
    """Return a function that counts the documents that have been made since."""
    gc.freeze()  # older objects, of which there are a million
    return lambda: sum(type(one) is SourceDocument for one in gc.get_objects())


def test_documents_come_back_from_the_file_as_they_were():
    spooled = as_documents(iter(MANY))
    assert isinstance(spooled, SpooledDocuments)
    assert list(spooled) == MANY
    assert [one.language for one in spooled] == [one.language for one in MANY]
    assert (spooled[-1], spooled[3:5], len(spooled)) == (MANY[-1], MANY[3:5], 60)
    with pytest.raises(IndexError):
        spooled[60]


def test_a_temporary_folder_that_cannot_be_used_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(StoreError, match="TMPDIR"):
        SpooledDocuments()


def test_documents_of_a_list_are_not_written():
    assert as_documents(MANY) == MANY
    assert isinstance(as_documents(MANY), list)
    assert isinstance(as_documents(tuple(MANY)), list)


@pytest.mark.parametrize("on_duplicate", ["skip", "replace"])
def test_ids_given_twice_are_handled_as_in_a_list(on_duplicate):
    given = [*MANY, SourceDocument("d3", "Another text."), SourceDocument("d3", "A third one.")]
    spooled = as_documents(iter(given), on_duplicate)
    assert list(spooled) == as_documents(given, on_duplicate)
    with pytest.raises(DuplicateDocumentError, match="'d3' is given twice"):
        as_documents(iter(given))


def test_languages_are_those_of_a_list():
    spooled = as_documents(iter(MANY))
    expected = [one.language for one in with_languages(MANY, {"de": 100})]
    detected = with_languages(spooled, {"de": 100})
    assert isinstance(detected, SelectedDocuments)
    assert [one.language for one in detected] == expected
    declared = [one.language for one in declare_language(spooled, "fr")]
    assert declared == [one.language for one in declare_language(MANY, "fr")]


def test_a_generator_gives_the_index_of_a_list(open_index):
    listed, generated = open_index(), open_index()
    report = listed.add(MANY)
    assert generated.add(one for one in MANY).to_dict() | {"seconds": 0} == (
        report.to_dict() | {"seconds": 0}
    )
    changed = [SourceDocument(one.id, "Dora. " + one.text) for one in MANY[:9]]
    assert listed.update(changed).documents == generated.update(iter(changed)).documents == 9
    assert listed.add(MANY, on_duplicate="replace").documents == 9
    assert generated.add(iter(MANY), on_duplicate="replace").documents == 9
    assert list(generated.export()) == list(listed.export())
    with pytest.raises(UnknownDocumentError, match="'new'"):
        generated.update(iter([SourceDocument("new", "Emil.")]))
    cost = listed.estimate(changed, update=MANY[20:30]), generated.estimate(iter(changed))
    assert (cost[0].documents, cost[1].documents) == (9, 9)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("wait", [True, False])
def test_only_some_documents_are_in_memory(open_index, tmp_path, monkeypatch, in_memory, wait):
    monkeypatch.setattr(planning, "_BATCH_CHUNKS", 4)
    rag = open_index(tmp_path / "a.e2g")
    most = 0

    def copies():
        for one in MANY:
            yield SourceDocument(one.id, one.text)

    def watch(_):
        nonlocal most
        most = max(most, in_memory())

    if wait:
        rag.add(copies(), progress=watch)
    else:
        rag.add(copies(), wait=False)
        rag.resume(progress=watch)
    assert len(rag.document_ids) == 60
    assert 0 < most < 20


def test_the_queue_is_read_a_few_documents_at_a_time(open_index, monkeypatch, in_memory):
    monkeypatch.setattr("e2graphrag_integrations.store.store._TEXT_ROWS", 7)
    rag = open_index()
    rag.add(iter(MANY), wait=False)
    queue = read_queue(rag.store)
    assert next(queue) == MANY[0]
    assert in_memory() < 10
    assert list(queue) == MANY[1:]


def test_a_splitter_gets_the_text_of_the_file(open_index):
    rag = open_index(splitter=lambda text: [Span(0, len(text))])
    assert rag.add(iter(MANY)).chunks == 60
