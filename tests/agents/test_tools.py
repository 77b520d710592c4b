"""The tools for agents: budgets, continuation, citations and refused arguments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.agents.budget import as_json, count
from e2graphrag_integrations.agents.tools import IndexTools
from e2graphrag_integrations.errors import (
    InvalidInputError,
    UnknownDocumentError,
    UnknownEntityError,
)
from fakes import STORY, NameExtractor
from strategies import examples

LONG = "".join(f"Anna met Bert in room {n} of the castle in Oslo. " for n in range(120))


@pytest.fixture(scope="module")
def rag():
    with E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=100, chunk_overlap=10, group_size=3),
    ) as index:
        index.add(
            [
                SourceDocument("story", STORY, title="A Map", metadata={"page": 3}),
                SourceDocument("long", LONG),
                SourceDocument("blank", " \n" * 9000 + "劉備字玄德。" * 900),
                SourceDocument("i" * 900, "Zoe lives in Lima."),
            ]
        )
        yield index


@pytest.fixture(scope="module")
def tools(rag):
    return IndexTools(rag, 2000)


@examples(0.5)
@given(tokens=st.integers(200, 2000), offset=st.integers(0, 12), start=st.integers(0, 22_000))
def test_no_answer_exceeds_its_budget(tools, rag, tokens, offset, start):
    calls = [
        lambda: tools.search("Where did Anna meet Bert?", offset=offset, max_tokens=tokens),
        lambda: tools.outline(max_tokens=tokens),
        lambda: tools.outline("long", max_tokens=tokens),
        lambda: tools.entity("Anna", offset, max_tokens=tokens),
        lambda: tools.path("Anna", "Emil", max_tokens=tokens),
        lambda: tools.read("long", min(start, len(LONG)), max_tokens=tokens),
        lambda: tools.read("blank", start, start + 5, max_tokens=tokens),
    ]
    for call in calls:
        try:
            answer = call()
        except InvalidInputError as error:
            assert "too low" in str(error)  # noqa: PT017 - most calls do not raise
            continue
        text = as_json(answer)
        assert count(text) <= tokens
        assert len(text) <= 8 * tokens + 8


def test_search_cites_exact_spans_and_continues_without_repeating(tools, rag):
    offset, seen, answers = 0, [], 0
    while offset is not None:
        answer = tools.search("Where did Anna meet Bert?", offset=offset, max_tokens=700)
        for hit in answer.hits:
            if hit.level == 0 and not hit.truncated:
                text = rag.document(hit.document_id).text
                assert hit.text == " … ".join(text[start:end] for start, end in hit.spans)
                seen += [(hit.document_id, n) for span in hit.spans for n in range(*span)]
        answers += 1
        assert answer.next_offset is None or answer.next_offset > offset
        offset = answer.next_offset
    assert answers > 3
    assert len(seen) == len(set(seen)) > len(STORY)
    first = tools.search("Who gave Anna a map of the harbour?").hits[0]
    assert (first.document_id, first.title, first.pages) == ("story", "A Map", "page 3")
    whole, part = (tools.search("Anna", max_tokens=n).hits for n in (2000, 500))
    assert [hit.spans for hit in whole[: len(part)]] == [hit.spans for hit in part]


def test_search_is_limited_to_documents_and_metadata(tools):
    found = tools.search("Anna and Bert", ["story"])
    assert {hit.document_id for hit in found.hits} == {"story"}
    found = tools.search("Anna and Bert", ["story", "long"], {"page": {"$ne": 3}})
    assert {hit.document_id for hit in found.hits} == {"long"}
    with pytest.raises(UnknownDocumentError, match="no document 'nowhere'"):
        tools.search("Anna", ["nowhere"])
    assert tools.search("Anna", []) == tools.search("Anna")


def test_a_text_of_many_documents_fits_into_any_budget(open_index):
    index = open_index()
    index.add([SourceDocument(f"{'copy' * 20}-{n}", "Anna met Bert in Oslo.") for n in range(30)])
    for tokens, most in ((200, 0), (4000, 20)):
        [hit] = IndexTools(index).search("Where did Anna meet Bert?", max_tokens=tokens).hits
        assert (hit.text, len(hit.also_in or ())) == ("Anna met Bert in Oslo.", most)


def test_read_returns_a_span_with_its_surroundings_and_then_the_rest(tools):
    start = LONG.index("room 60")
    answer = tools.read("long", start, start + 7, max_tokens=300)
    assert answer.text == LONG[answer.start : answer.end]
    assert answer.start < start - 200 < start + 200 < answer.end
    assert answer.next_start == answer.end
    text, position = "", 0
    while position is not None:
        part = tools.read("long", position)
        assert part.start == position
        text += part.text
        position = part.next_start
    assert text == LONG
    assert tools.read("long", len(LONG)).text == ""
    whole = tools.read("long", 0, len(LONG), max_tokens=300)  # does not fit: its start
    assert (whole.start, whole.text) == (0, LONG[: whole.end])


def test_outline_leads_from_documents_to_chunks(tools, rag):
    documents, offset = [], 0
    while offset is not None:
        answer = tools.outline(offset=offset, max_tokens=300)
        documents += answer.entries
        offset = answer.next_offset
    assert [one.document_id for one in documents] == sorted(rag.document_ids)
    below = tools.outline("long").entries
    assert below[0].level > 1
    while below[0].level:
        parts = [tools.outline(node_id=one.node_id) for one in below]
        assert [part.total for part in parts] == [one.children for one in below]
        below = [entry for part in parts for entry in part.entries]
    [chunks] = [one.children for one in documents if one.document_id == "long"]
    assert len(below) == chunks
    assert below[0].text in LONG or below[0].truncated
    assert tools.outline(node_id=below[0].node_id).entries == []


def test_entity_lists_every_sentence_once(tools, rag):
    offset, mentions = 0, []
    while offset is not None:
        answer = tools.entity("bert", offset, max_tokens=500)
        mentions += answer.mentions
        offset = answer.next_offset
    expected = rag.entity("Bert", top=None).mentions
    assert [(one.start, one.text) for one in mentions] == [
        (one.sentence_start, one.sentence) for one in expected
    ]
    assert {"anna", "oslo"} <= set(answer.neighbors)


def test_path_proves_each_hop(tools, rag):
    [best, *_] = tools.path("Anna", "Emil").paths
    assert (best.entities[0], best.entities[-1]) == ("anna", "emil")
    for hop in best.hops:
        assert rag.document(hop.document_id).text[hop.start : hop.end] == hop.text
        assert hop.source in hop.text.lower()
        assert hop.target in hop.text.lower()
    assert tools.path("Zoe", "Anna").paths == []


def test_the_tools_of_a_scope_see_only_its_documents(rag):
    scoped = IndexTools(rag.scoped({"page": 3}), 2000)
    assert {hit.document_id for hit in scoped.search("Anna met Bert").hits} == {"story"}
    assert [entry.document_id for entry in scoped.outline().entries] == ["story"]
    assert {one.document_id for one in scoped.entity("Anna").mentions} == {"story"}
    assert scoped.path("Anna", "Emil").paths
    for call in (
        lambda: scoped.read("long"),
        lambda: scoped.outline("long"),
        lambda: scoped.search("Anna", ["long"]),
    ):
        with pytest.raises(UnknownDocumentError):
            call()


def test_search_with_real_vectors_finds_other_words(real_embedder, names):
    documents = [
        SourceDocument("car", "The automobile would not start in the cold."),
        SourceDocument("cat", "The kitten slept on the sofa all afternoon."),
    ]
    with E2GraphRAG.open(
        ":memory:", embedder=real_embedder, models=Models(extractor=names)
    ) as index:
        index.add(documents)
        hits = IndexTools(index).search("What was wrong with the car?").hits
    assert hits[0].document_id == "car"
    assert hits[0].relevance > hits[1].relevance


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda t: t.search(" "), InvalidInputError, "question is empty"),
        (lambda t: t.search("x" * 33_000), InvalidInputError, "at most 32,000"),
        (
            lambda t: t.search("Anna", where={"$no": 1}),
            InvalidInputError,
            r"^where: ",
        ),
        (lambda t: t.search("Anna", offset=-1), InvalidInputError, "offset=-1"),
        (lambda t: t.search("Anna", max_tokens=199), InvalidInputError, "from 200 to 2,000"),
        (lambda t: t.search("Anna", max_tokens=2001), InvalidInputError, "from 200 to 2,000"),
        (lambda t: t.read("nowhere"), UnknownDocumentError, "nowhere"),
        (lambda t: t.read("story", 9999), InvalidInputError, "start=9999"),
        (lambda t: t.read("story", 9, 8), InvalidInputError, "end=8"),
        (lambda t: t.outline("nowhere"), UnknownDocumentError, "no document 'nowhere'"),
        (lambda t: t.outline(node_id="nowhere"), InvalidInputError, "no node 'nowhere'"),
        (lambda t: t.outline("story", "x"), InvalidInputError, "but not both"),
        (lambda t: t.outline(offset=99), InvalidInputError, "beyond the last of 4 entries"),
        (lambda t: t.entity("Nobody Known"), UnknownEntityError, "no entity"),
        (lambda t: t.entity("Emil", 99), InvalidInputError, "beyond the last mention"),
        (lambda t: t.path("Anna", "anna"), InvalidInputError, "the same entity"),
        (lambda t: t.path("Anna", "Nobody Known"), UnknownEntityError, "no entity"),
        (lambda t: t.path("Anna", "Emil", 99), InvalidInputError, "beyond the last"),
        (lambda _: IndexTools(None, 199), InvalidInputError, "from 200 to 100,000"),
    ],
)
def test_arguments_out_of_range_are_refused(tools, call, kind, message):
    with pytest.raises(kind, match=message):
        call(tools)
