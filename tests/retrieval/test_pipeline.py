"""One call of `retrieve`: its arguments, and what a result's nodes say of themselves."""

from __future__ import annotations

import numpy as np
import pytest

from e2graphrag_integrations import Mention, PaperStrategy, SourceDocument
from e2graphrag_integrations.errors import ExtractionError, FilterError, InvalidInputError
from fakes import CountingLLM


@pytest.fixture
def rag(open_index, story):
    rag = open_index()
    rag.add(story)
    return rag


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"k": 0}, "k=0"),
        ({"k": -3}, "k=-3"),
        ({"k": 2.5}, "k=2.5"),
        ({"k": True}, "k=True"),
        ({"token_budget": 0}, "token_budget=0"),
        ({"token_budget": "9"}, "token_budget='9'"),
        ({"mode": "both"}, "mode='both'"),
        ({"expand": "up"}, "expand='up'"),
        ({"k": 10**5000 * -1}, "k=(int, too large to show)"),
        ({"mode": []}, "mode=[]"),
        ({"strategy": object()}, "has no method rank"),
        ({"strategy": 0}, "has no method rank"),
        ({"strategy": PaperStrategy}, "has no method rank"),
    ],
)
def test_an_argument_out_of_range_is_named(rag, options, word):
    with pytest.raises(InvalidInputError) as caught:
        rag.retrieve("Anna", **options)
    assert word in str(caught.value)


@pytest.mark.parametrize("question", ["", "  \n\t "])
def test_a_question_without_words_is_refused(rag, question):
    with pytest.raises(InvalidInputError, match="question is empty"):
        rag.retrieve(question)


@pytest.mark.parametrize("question", [None, 7, b"Anna", ["Anna"]])
def test_a_question_that_is_no_string_is_refused(rag, question):
    kind = type(question).__name__
    with pytest.raises(InvalidInputError, match=f"question must be a string, not {kind}"):
        rag.retrieve(question)


def test_numbers_of_numpy_are_taken(rag):
    expected = rag.retrieve("Anna and Bert", k=3, token_budget=30)
    given = rag.retrieve("Anna and Bert", k=np.int64(3), token_budget=np.int32(30))
    assert given.nodes == expected.nodes


@pytest.mark.parametrize("answer", [None, [], ([],), ([], None), ("ab", None), 7])
def test_a_strategy_that_ranks_nothing_is_named(rag, answer):
    class Wrong:
        name = "wrong"

        def rank(self, query, snapshot):
            return answer

    with pytest.raises(InvalidInputError, match=r"Wrong\.rank\(\) must return a list of candid"):
        rag.retrieve("Anna", strategy=Wrong())


@pytest.mark.parametrize(
    "where", [{"kind": {"$like": 1}}, {"$or": 1}, ["kind"], {"kind": {"$in": 1}}]
)
def test_a_filter_that_is_not_understood_is_refused_even_by_an_empty_index(open_index, where):
    with pytest.raises(FilterError):
        open_index().retrieve("Anna", where=where)


def test_a_node_carries_its_source_title_and_metadata(rag, story):
    node = rag.retrieve("Emil", k=1).nodes[0]
    assert node.document_id == "story"
    assert node.title == "A Map"
    assert node.metadata == {"kind": "tale"}
    assert story.text[node.start : node.end] == node.text
    assert node.spans == ((node.start, node.end),)
    assert node.entities == ("emil",)
    assert node.reasons


def test_a_nodes_metadata_is_its_segments_where_they_agree(open_index):
    text = "Anna sat here. Bert sat there. Cleo ran off now."
    pages = [(0, 14, {"page": 1, "ink": "red"}), (15, len(text), {"page": 2, "ink": "red"})]
    rag = open_index(chunk_size=4, chunk_overlap=0, summarizer=CountingLLM())
    rag.add(SourceDocument("d", text, metadata={"lang": "en"}, segments=pages))
    by_place = {
        (n.level, n.position): n.metadata for n in rag.retrieve("x", k=9, mode="global").nodes
    }
    assert by_place[0, 0] == {"lang": "en", "ink": "red", "page": 1}
    assert by_place[0, 1] == {"lang": "en", "ink": "red", "page": 2}
    assert by_place[1, 0] == {"lang": "en", "ink": "red"}  # pages 1 and 2 do not agree


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        [[], []],
        [[[Mention("Anna", 0, 4000)]]],
        [["Anna"]],
    ],
)
def test_an_extractor_that_fails_on_a_question_gives_a_typed_error(open_index, story, answer):
    from fakes import NameExtractor

    class Turning(NameExtractor):
        broken = False

        def extract(self, texts):
            return answer if self.broken else super().extract(texts)

    extractor = Turning()
    rag = open_index(extractor=extractor)
    rag.add(story)
    extractor.broken = True
    with pytest.raises(ExtractionError, match="Turning"):
        rag.retrieve("Anna and Bert")
    assert rag.verify().ok


def test_k_beyond_the_index_returns_all_there_is(rag):
    stats = rag.stats()
    result = rag.retrieve("nothing in particular", k=10_000)
    assert len(result.nodes) == stats.chunks + stats.summaries


async def test_aretrieve_gives_what_retrieve_gives(rag):
    one = rag.retrieve("Anna and Bert", k=3, token_budget=30)
    other = await rag.aretrieve("Anna and Bert", k=3, token_budget=30)
    assert other.nodes == one.nodes


def test_a_strategy_given_with_the_call_ranks_it(rag):
    from e2graphrag_integrations.retrieval.strategy import Candidate
    from e2graphrag_integrations.retrieval.trace import Trace

    class FirstNode:
        name = "first"

        def rank(self, query, snapshot):
            return [Candidate(0, 1.0, "local", ("first",))], Trace(
                query.question, self.name, query.mode, route="local", reason="because"
            )

    result = rag.retrieve("Anna", strategy=FirstNode())
    assert result.trace.strategy == "first"
    assert [node.reasons for node in result.nodes] == [("first",)]
