"""Proposals of homonyms: documents that introduce one name and share no context."""

from __future__ import annotations

import json

import numpy as np
import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import InvalidInputError

RUNNER = "Ada Berg is a runner from Norway. She won the race of Bergen with Olaf Lund."
BANKER = "Ada Berg is a banker in Rome. She leads the Bank of Lazio with Carlo Conti."
TITLE = "Ada Berg"


class Topics:
    """An embedder for which texts with a word are about its topic."""

    fingerprint = "fake:topics"
    dimension = 4
    max_tokens = None

    def embed(self, texts):
        vectors = [
            [2 * ("runner" in text), 2 * ("bank" in text.lower()), 1, len(text) > 20]
            for text in texts
        ]
        found = np.asarray(vectors, dtype=np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    def embed_query(self, text):
        return self.embed([text])[0]


@pytest.fixture
def open_topics(open_index):
    def make(*documents):
        rag = open_index(embedder=Topics(), extractor=None, chunk_size=200)
        rag.add([*documents])
        return rag

    return make


def test_documents_that_introduce_a_name_without_common_context_are_proposed(open_topics):
    rag = open_topics(
        SourceDocument("runner", RUNNER, TITLE, {"team": "x=y"}),
        SourceDocument("banker", BANKER, TITLE),
        SourceDocument("bank", "The bank of Carlo Conti hired Ada Berg.", "News"),
    )
    [proposal] = rag.propose_homonyms()
    assert proposal.name == "ada berg"
    first, second = proposal.entities
    assert (first.meaning, first.document_ids) == ("ada berg", ("banker", "bank"))
    assert second.document_ids == ("runner",)
    assert "olaf lund" in second.neighbors
    assert "carlo conti" in first.neighbors
    assert (first.values, second.values) == ((), ("team=x=y",))
    assert not set(first.neighbors) & set(second.neighbors)
    assert proposal.similarity == pytest.approx(0.2)
    json.dumps(proposal.to_dict())
    rag.edit_entities(separate=[proposal])
    assert rag.entity("Ada Berg").documents == ("bank", "banker")
    assert rag.entity(second.meaning).documents == ("runner",)
    assert rag.propose_homonyms() == []


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "other",
    [
        SourceDocument("b", BANKER.replace("banker", "runner"), TITLE),  # similar vectors
        SourceDocument("b", f"{BANKER} Olaf Lund ran from Norway to Bergen.", TITLE),  # names
        SourceDocument(
            "b", "She leads the Bank of Lazio with Carlo Conti.", TITLE
        ),  # no definition
        SourceDocument("b", BANKER, "News"),  # about something else
    ],
)
def test_documents_that_may_be_about_one_entity_are_not_proposed(open_topics, other):
    rag = open_topics(SourceDocument("a", RUNNER, TITLE), other)
    assert rag.propose_homonyms() == []


@pytest.mark.slow
def test_common_values_in_the_metadata_are_context(open_topics):
    teams = [{"team": "x", "club": "y"}, {"team": "x", "club": "y"}]
    documents = [
        SourceDocument(str(at), text, TITLE, teams[at]) for at, text in enumerate((RUNNER, BANKER))
    ]
    assert open_topics(*documents).propose_homonyms() == []


@pytest.mark.slow
def test_a_title_with_parentheses_is_the_new_name(open_topics):
    rag = open_topics(
        SourceDocument("a", BANKER, TITLE), SourceDocument("b", RUNNER, "Ada Berg (runner)")
    )
    [proposal] = rag.propose_homonyms()
    assert proposal.separation == ("ada berg", {"Ada Berg (runner)": ("b",)})


@pytest.mark.slow
def test_a_lower_limit_and_a_prefix_give_fewer_proposals(open_topics):
    rag = open_topics(SourceDocument("a", BANKER, TITLE), SourceDocument("b", RUNNER, TITLE))
    assert rag.propose_homonyms(prefix="ad")
    assert rag.propose_homonyms(prefix="b") == []
    assert rag.propose_homonyms(max_similarity=0.1) == []
    with pytest.raises(InvalidInputError, match="max_similarity"):
        rag.propose_homonyms(max_similarity=2)


@pytest.mark.slow
async def test_proposals_are_made_in_an_event_loop(open_topics):
    rag = open_topics(SourceDocument("a", BANKER, TITLE), SourceDocument("b", RUNNER, TITLE))
    assert await rag.apropose_homonyms() == rag.propose_homonyms()
