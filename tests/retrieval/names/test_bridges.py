"""Bridges: a name in one of the best chunks leads to chunks of other documents."""

from __future__ import annotations

import math

import pytest

from e2graphrag_integrations import E2GraphRAG, HybridStrategy, SourceDocument
from e2graphrag_integrations.retrieval.names import bridges

LOCAL_NAMES = {"diversity": 0, "title_link_weight": 0}
LIGHT = 0.01
"""A weight with which no gain reaches the limit below its source."""

QUESTION = "Who mended Oslo, and why?"


@pytest.fixture
def notes(open_index):
    """Index texts as documents d0, d1, ..., of one chunk each."""

    def make(*texts, **options):
        rag = open_index(chunk_size=100, **options)
        rag.add([SourceDocument(f"d{n}", text) for n, text in enumerate(texts)])
        return rag

    return make


def bridged(rag, question=QUESTION, *, where=None, **settings):
    """Return what bridges add to each document, and the trace."""
    strategy = HybridStrategy(**LOCAL_NAMES, **settings)
    result = rag.retrieve(question, k=99, strategy=strategy, where=where)
    without = rag.retrieve(
        question, k=99, where=where, strategy=HybridStrategy(**LOCAL_NAMES, bridge_weight=0)
    )
    before = {node.document_id: node.score for node in without.nodes}
    added = {n.document_id: n.score - before.get(n.document_id, 0) for n in result.nodes}
    return {id_: gain for id_, gain in added.items() if gain > 1e-9}, result.trace


FILLER = tuple(f"plain words about topic{n}." for n in range(20))


def test_a_name_in_the_best_chunk_lifts_another_document_with_it(notes):
    rag = notes("Oslo was mended by Bert.", "Bert knows why.", *FILLER)
    gains, trace = bridged(rag)
    assert set(gains) == {"d1"}
    [followed] = trace.bridges
    ids = {node.node_id: node.document_id for node in rag.retrieve(QUESTION, k=99).nodes}
    assert (followed.name, ids[followed.source], ids[followed.target]) == ("bert", "d0", "d1")


def test_the_gain_is_the_worth_of_the_bridge(notes):
    others = [f"Bert saw word{n}." for n in range(18)]
    rag = notes("Oslo is old, says Bert.", "Bert knows why.", *others, *FILLER)
    strategy = HybridStrategy(**LOCAL_NAMES, bridge_weight=0)
    gains, trace = bridged(rag, bridge_weight=LIGHT)
    snapshot = rag._session.snapshot()
    idf = {word: snapshot.bm25.idf(word) for word in ("why", "oslo")}
    idf |= dict.fromkeys(("who", "and", "mended"), snapshot.bm25.idf_of_unique)
    total = sum(idf.values())
    chunks, n = len(snapshot.chunk_nodes), 20
    specificity = math.log((chunks + 1) / (n + 1)) / math.log((chunks + 1) / 2)
    best = rag.retrieve(QUESTION, k=1, strategy=strategy).nodes[0]
    about = 1 / n  # one of the mentions of Bert
    strength = best.score * (0.3 + idf["oslo"] / total) * specificity * about
    missing = idf["why"] / (total - idf["oslo"])
    least, most = strength * missing, strength * (missing + 1)  # the relevance is at most 2
    assert most < 0.1
    assert least / 0.1 <= gains["d1"] / (LIGHT / 2) <= most / 0.1
    assert trace.bridges[0].name == "bert"


def test_the_gain_grows_with_the_weight(notes):
    rag = notes("Oslo was mended by Bert.", "Bert knows why.", *FILLER)
    [gain] = bridged(rag, bridge_weight=LIGHT)[0].values()
    [half] = bridged(rag, bridge_weight=LIGHT / 2)[0].values()
    assert half == pytest.approx(gain / 2)


def test_a_weak_bridge_adds_less(notes):
    common = tuple(f"Bert saw word{n}." for n in range(60))
    rag = notes("Oslo was mended by Bert.", "Bert knows why.", *common, *FILLER)
    gains, _ = bridged(rag)
    assert 0 < gains["d1"] < 0.2


def test_a_name_leads_to_the_chunk_that_is_about_it(notes):
    rag = notes(
        "Oslo was mended by Bert.",
        "Anna met Bert in a boat.",
        "Bert was a smith. Bert lived long. Bert had a boat.",
        "Carl met Bert in a boat.",
        *FILLER,
    )
    gains, trace = bridged(rag, "What boat had the one who mended Oslo?")
    assert max(gains, key=gains.get) == "d2"
    ids = {node.node_id: node.document_id for node in rag.retrieve(QUESTION, k=99).nodes}
    assert ids[trace.bridges[0].target] == "d2"


def test_the_name_in_the_sentence_with_the_words_of_the_question_leads_first(notes):
    rag = notes(
        "Oslo is old. Its teacher was Bert. Its baker was Carl. Its singer was Dora.",
        "Bert lived in a hut.",
        "Carl lived in a barn.",
        "Dora lived in a tower.",
        *FILLER,
    )
    for asked, expected in (("teacher", "d1"), ("bakers", "d2"), ("singer", "d3")):
        gains, _ = bridged(rag, f"Where did the {asked} of Oslo live?", bridge_weight=LIGHT)
        assert max(gains, key=gains.get) == expected


def test_every_lifted_chunk_stays_below_the_best_one(notes):
    """Chunks that lead to each other do not lift one another above the best one."""
    texts = [f"Bert and Carl mended roof{n}. Bert sang song{n}." for n in range(8)]
    rag = notes("Oslo was mended by Bert and Carl.", *texts, *FILLER)
    strategy = HybridStrategy(**LOCAL_NAMES, bridge_weight=1000)
    before = rag.retrieve(QUESTION, k=99, strategy=HybridStrategy(**LOCAL_NAMES, bridge_weight=0))
    after = rag.retrieve(QUESTION, k=99, strategy=strategy)
    best = before.nodes[0]
    assert after.nodes[0].node_id == best.node_id
    assert after.nodes[1].score <= 0.8 * best.score + 1e-9


def test_a_lifted_chunk_stays_below_its_source(notes):
    rag = notes("Oslo was mended by Bert.", "Bert knows why.", *FILLER)
    nodes = rag.retrieve(
        QUESTION, k=99, strategy=HybridStrategy(**LOCAL_NAMES, bridge_weight=1000)
    ).nodes
    assert [node.document_id for node in nodes[:2]] == ["d0", "d1"]
    assert nodes[1].score == pytest.approx(0.8 * nodes[0].score, rel=1e-6)


def test_names_of_the_question_and_names_in_many_chunks_lead_nowhere(notes):
    crowd = tuple(f"Bert saw word{n}." for n in range(101))
    rag = notes("Oslo was mended by Bert.", "Oslo knows why.", *crowd)
    assert bridged(rag)[1].bridges == ()


def test_a_name_leads_to_other_documents_only(open_index):
    rag = open_index(chunk_size=8, chunk_overlap=0)
    rag.add([SourceDocument("d0", "Oslo was mended by Bert. " + "Bert knows well why. " * 5)])
    rag.add([SourceDocument(f"f{n}", text) for n, text in enumerate(FILLER)])
    assert bridged(rag)[1].bridges == ()


def test_bridges_neither_start_nor_end_outside_the_filter(open_index):
    rag = open_index(chunk_size=100)
    texts = "Oslo was mended by Bert.", "Bert knows why.", "Bert says why.", *FILLER
    rag.add(
        [
            SourceDocument(f"d{n}", text, metadata={"open": n != 1, "late": n > 1})
            for n, text in enumerate(texts)
        ]
    )
    assert set(bridged(rag, where={"open": True})[0]) == {"d2"}
    assert bridged(rag, where={"late": True})[1].bridges == ()


def test_the_reason_quotes_the_sentence_that_has_the_name(notes):
    rag = notes(
        "Today it rains. Oslo was mended by Bert. Later it snows.", "Bert knows why.", *FILLER
    )
    nodes = rag.retrieve(QUESTION, k=5, strategy=HybridStrategy(**LOCAL_NAMES)).nodes
    [reason] = [
        one
        for node in nodes
        if node.document_id == "d1"
        for one in node.reasons
        if one.startswith("bridges")
    ]
    assert reason == ("bridges: rank 1, through bert, in the sentence 'Oslo was mended by Bert.'")


def test_the_reason_quotes_the_complete_name(notes):
    rag = notes("The annual fair is big. Oslo was mended by Ann.", "Ann knows why.", *FILLER)
    nodes = rag.retrieve(QUESTION, k=5, strategy=HybridStrategy(**LOCAL_NAMES)).nodes
    reasons = [r for n in nodes if n.document_id == "d1" for r in n.reasons if "bridges" in r]
    assert reasons == ["bridges: rank 1, through ann, in the sentence 'Oslo was mended by Ann.'"]


def test_letters_that_grow_in_lower_case_do_not_move_the_quoted_sentence():
    text = "İİİİİİİİİİ is old. Oslo was mended by Ann. It is a big place."
    assert bridges._sentence_with("ann", text) == "Oslo was mended by Ann."


def test_explain_names_the_bridges(notes):
    rag = notes("Oslo was mended by Bert.", "Bert knows why.", *FILLER)
    assert "bridges: bert (1 chunk(s))" in rag.retrieve(QUESTION).trace.explain()


PEOPLE = (
    ("Nils Brandt", "Solund Library", "1921", "pneumonia"),
    ("Greta Lang", "Arden Theatre", "1934", "a fever"),
    ("Emil Strand", "Mosby Hospital", "1908", "tuberculosis"),
    ("Karin Dahl", "Ferring School", "1947", "a stroke"),
    ("Oskar Lien", "Tofte Museum", "1952", "malaria"),
    ("Hedda Vik", "Ranvik Gallery", "1919", "a fall"),
)


def two_hop_notes():
    """Return notes about founders: who founded a place, how they died, and what became of it."""
    for person, place, year, cause in PEOPLE:
        yield f"{person} founded the {place} in {year}."
        yield f"{person} died of {cause} in the spring."
        yield f"The {place} was sold to the town after the war."
        yield f"Before that, {person} had traveled as a salesman."


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("budget", [None, 120])
def test_two_hop_questions_over_plain_notes_find_both_notes(budget):
    """With real vectors and names, as five notes or as a context that holds about seven."""
    notes = list(two_hop_notes())
    found = 0
    with E2GraphRAG.open(":memory:") as rag:
        rag.add([SourceDocument(str(n), text) for n, text in enumerate(notes)])
        for number, (_, place, _, _) in enumerate(PEOPLE):
            question = f"Of what did the founder of the {place} die?"
            size = {"k": 5} if budget is None else {"token_budget": budget}
            ids = {node.document_id for node in rag.retrieve(question, **size).nodes}
            found += ids >= {str(4 * number), str(4 * number + 1)}
    assert found >= len(PEOPLE) - 1


def test_a_common_word_that_begins_a_sentence_is_no_bridge():
    hours = {"sales": "10:00", "design": "12:00", "press": "16:45", "safety": "9:00"}
    with E2GraphRAG.open(":memory:") as rag:
        for one, hour in hours.items():
            weather = " Rain fell on the coast all week." * (one != "safety")
            rag.add(SourceDocument(one, f"The {one} meeting begins at {hour}.{weather}"))
        assert next(one for one in rag.entities() if one.name == "rain").named
        result = rag.retrieve("Which meeting begins at noon?")
    assert not any("rain" in reason for node in result.nodes for reason in node.reasons)
