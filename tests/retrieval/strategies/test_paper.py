"""`PaperStrategy`, computed by hand.

Every line is a chunk. Every capitalized word is an entity; entities in the same sentence are one
hop apart.
"""

from __future__ import annotations

import pytest

from e2graphrag_integrations import HashingEmbedder, PaperStrategy, SourceDocument
from e2graphrag_integrations.errors import InvalidInputError
from fakes import CountingLLM, LineCounter

# Chunks shared with Anna   hops from Anna
#   Bert  c0                1: same sentence
#   Cleo  c1, c2            2: through Xena, in c2
#   Dora  c3                3: through Yuri and Zoe, in c4 to c6
#   Emil  c7                4: through Pia, Quin and Rolf, in c8 to c11
LADDER = [
    "Anna met Bert.",
    "Anna sat. Cleo sat.",
    "Anna met Xena. Xena met Cleo.",
    "Anna sat. Dora sat.",
    "Anna met Yuri.",
    "Yuri met Zoe.",
    "Zoe met Dora.",
    "Anna sat. Emil sat.",
    "Anna met Pia.",
    "Pia met Quin.",
    "Quin met Rolf.",
    "Rolf met Emil.",
]


@pytest.fixture
def lines(open_index):
    """Index documents whose lines are chunks; their summaries mention no entity."""

    def make(*documents, metadata=None, segments=()):
        rag = open_index(
            token_counter=LineCounter(),
            summarizer=CountingLLM(),
            strategy=PaperStrategy(),
            chunk_size=1,
            chunk_overlap=0,
        )
        rag.add(
            [
                SourceDocument(
                    chr(97 + number),
                    "\n".join(rows),
                    metadata=(metadata or {}).get(chr(97 + number), {}),
                    segments=segments,
                )
                for number, rows in enumerate(documents)
            ]
        )
        return rag

    return make


def texts(result):
    return [node.text for node in result.nodes]


@pytest.mark.parametrize(
    ("k", "h", "chunks"),
    [
        (5, 4, [0, 1, 2, 3, 7]),  # |C_4| = 5
        (4, 3, [0, 1, 2, 3]),  # |C_4| = 5 > 4, |C_3| = 4
        (3, 2, [0, 1, 2]),  # |C_3| = 4 > 3, |C_2| = 3
        (2, 1, [0]),  # |C_2| = 3 > 2, |C_1| = 1
    ],
)
def test_h_falls_until_at_most_k_chunks_are_shared(lines, k, h, chunks):
    result = lines(LADDER).retrieve("Anna Bert Cleo Dora Emil", k=k)
    assert result.route == "local"
    assert result.trace.chosen_h == h
    assert sorted(texts(result)) == sorted(LADDER[c] for c in chunks)


def test_the_trace_lists_each_step_of_h(lines):
    trace = lines(LADDER).retrieve("Anna Bert Cleo Dora Emil", k=2).trace
    # Within 4 hops: Anna and each of the others, Bert and Cleo (3), Bert and Dora (4).
    assert [(s.h, s.pairs, s.chunks) for s in trace.hop_steps] == [
        (4, 6, 5),
        (3, 4, 4),
        (2, 2, 3),
        (1, 1, 1),
    ]
    hops = {(pair.a, pair.b): (pair.hops, pair.shared_chunks) for pair in trace.pairs}
    assert hops["anna", "cleo"] == (2, 2)
    assert hops["anna", "emil"] == (4, 1)
    assert hops["bert", "cleo"] == (3, 0)
    assert hops["bert", "emil"] == (None, 0)  # 5 hops apart


def test_the_last_h_with_shared_chunks_counts_if_the_next_one_has_none(lines):
    result = lines(LADDER).retrieve("Anna Cleo Dora Emil", k=1)
    # C_4 = {c1, c2, c3, c7}, C_3 = {c1, c2, c3}, C_2 = {c1, c2}, C_1 = {}: C_2 counts.
    assert [step.chunks for step in result.trace.hop_steps] == [4, 3, 2, 0]
    assert result.trace.chosen_h == 2
    # c1 mentions only Anna and Cleo (coverage 1); c2 also mentions Xena (coverage 2/3).
    assert texts(result) == [LADDER[1]]
    assert result.trace.cuts["k"] == 1


def test_more_than_k_chunks_within_one_hop_are_ranked_and_cut_to_k(lines):
    rows = ["Anna met Bert far from here.", "Anna met Bert.", "Anna met Bert near home."]
    result = lines(rows).retrieve("Anna Bert", k=2)
    # C_1 has 3 chunks; their occurrence is 2/6, 2/3 and 2/5.
    assert result.trace.chosen_h == 1
    assert texts(result) == [rows[1], rows[2]]
    assert result.trace.cuts["k"] == 1


def test_local_chunks_rank_by_entities_then_coverage_then_occurrence_then_position(lines):
    first = [
        "Anna Bert Oslo.",  # 2 query entities, coverage 2/3, occurrence 2/3
        "Anna met Bert.",  # 2, coverage 1, occurrence 2/3
        "Anna met Bert and Cleo.",  # 3, coverage 1, occurrence 3/5
        "Anna met Bert today again.",  # 2, coverage 1, occurrence 2/5
    ]
    second = ["Bert met Anna."]  # ranks as a line above, in a later document
    result = lines(first, second).retrieve("Anna Bert Cleo", k=9)
    assert [(node.document_id, node.position) for node in result.nodes] == [
        ("a", 2),
        ("a", 1),
        ("b", 0),
        ("a", 3),
        ("a", 0),
    ]
    assert [node.score for node in result.nodes] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])
    assert result.trace.lists["local"][0].figures == {
        "entities": 3,
        "coverage": 1.0,
        "occurrence": 0.6,
    }
    assert result.nodes[0].reasons[0] == "query entities: 3"


def test_a_close_pair_without_a_shared_chunk_adds_no_chunks(lines):
    rows = ["Anna met Xena.", "Xena met Bert.", "Cleo met Dora."]
    result = lines(rows).retrieve("Anna Bert", k=5)
    # As in the paper, chunks along the path between two entities do not count.
    assert [(p.hops, p.shared_chunks) for p in result.trace.pairs] == [(2, 0)]
    assert result.trace.chosen_h is None
    assert result.route == "global"
    assert result.trace.reason == "ranked by occurrence: no close pair shares a chunk"


def test_max_hops_limits_the_distance_of_close_entities(lines):
    rag = lines(LADDER)
    assert rag.retrieve("Anna Emil", k=3).route == "local"
    assert rag.retrieve("Anna Emil", k=3, strategy=PaperStrategy(max_hops=3)).route == "global"
    with pytest.raises(InvalidInputError, match="max_hops=0"):
        PaperStrategy(max_hops=0)


def test_one_entity_ranks_chunks_and_summaries_by_occurrence(lines):
    rows = ["Anna ran.", "Anna saw Bert run far.", "Bert ran."]
    result = lines(rows).retrieve("Anna", k=4)
    assert result.route == "global"
    assert result.trace.reason == "ranked by occurrence: one query entity"
    # Mentions / words: 1/2 in chunk 0, 1/5 in chunk 1, and 2 / (2 + 5 + 2) in the leaves of the
    # summary. Chunk 2 has no mention and is dropped.
    assert [(node.level, node.position) for node in result.nodes] == [(0, 0), (1, 0), (0, 1)]
    figures = [ranked.figures["occurrence"] for ranked in result.trace.lists["occurrence"]]
    assert figures == pytest.approx([0.5, 2 / 9, 0.2], abs=1e-6)
    assert result.trace.cuts["no query entity"] == 1
    assert [node.score for node in result.nodes] == pytest.approx([1, 1 / 2, 1 / 3])


def test_occurrence_ranks_only_the_2k_nearest_nodes(lines):
    rows = [f"Anna ran {number} miles." for number in range(9)]
    result = lines(rows).retrieve("Anna", k=2)
    assert len(result.trace.lists["dense"]) == 4
    assert len(result.nodes) == 2


def test_equal_occurrence_is_ordered_by_cosine(lines):
    rows = ["Anna ate bread.", "Anna rode horses.", "Anna grew roses."]
    result = lines(rows).retrieve("who rode horses, Anna", k=4)
    cosine = {r.node_id: r.figures["cosine"] for r in result.trace.lists["dense"]}
    tied = [cosine[node.node_id] for node in result.nodes]
    assert len(tied) == 4  # All have one mention in three words.
    assert tied == sorted(tied, reverse=True)
    assert rows[1] in texts(result)[:2]


def test_no_node_is_dropped_if_none_of_the_nearest_has_a_query_entity(lines):
    rag = lines(["Anna ran."], ["Bert ran.", "Bert sat."])
    result = rag.retrieve("Anna", k=5, where={"document_id": "b"})
    assert result.trace.reason.startswith("ranked by occurrence")
    assert len(result.nodes) == 3
    cosines = [ranked.figures["cosine"] for ranked in result.trace.lists["occurrence"]]
    assert cosines == sorted(cosines, reverse=True)
    assert result.trace.cuts["no query entity"] == 0


def test_without_a_linked_entity_the_k_nearest_nodes_are_returned(lines):
    result = lines(LADDER).retrieve("what of nobody", k=15)
    assert result.route == "global"
    assert result.trace.reason == "no query entity is in the index"
    assert {node.level for node in result.nodes} == {0, 1}  # 12 chunks and 3 summaries
    scores = [node.score for node in result.nodes]
    assert scores == sorted(scores, reverse=True)
    assert len(lines(LADDER).retrieve("what of nobody", k=4).nodes) == 4


def test_the_trace_lists_mentions_without_an_entity(lines):
    trace = lines(LADDER).retrieve("Anna Waldo", k=3).trace
    assert trace.mentions == ("Anna", "Waldo")
    assert trace.unlinked == ("Waldo",)
    assert [link.entity for link in trace.links] == ["anna"]


def test_mode_global_uses_no_entities(lines):
    result = lines(LADDER).retrieve("Anna Bert", k=3, mode="global")
    assert result.route == "global"
    assert result.trace.links == ()
    assert set(result.trace.lists) == {"dense"}


def test_mode_local_returns_only_chunks_with_query_entities(lines):
    rag = lines(LADDER)
    assert texts(rag.retrieve("Anna Bert", k=9, mode="local")) == [LADDER[0]]
    lone = rag.retrieve("Dora", k=9, mode="local")
    assert lone.route == "local"
    assert sorted(texts(lone)) == sorted([LADDER[3], LADDER[6]])
    assert rag.retrieve("nobody", k=9, mode="local").nodes == ()


def test_the_filter_applies_before_h_is_chosen(lines):
    rag = lines(LADDER, ["Anna met Bert.", "Anna met Bert twice."])
    result = rag.retrieve("Anna Bert", k=1, where={"document_id": "a"})
    # The filter allows one of three shared chunks, so nothing is cut.
    assert [node.document_id for node in result.nodes] == ["a"]
    assert result.trace.hop_steps[0].chunks == 1
    assert result.trace.cuts["k"] == 0


def test_the_filter_applies_before_the_dense_search_takes_k(lines):
    kinds = {"a": {"kind": "x"}, "b": {"kind": "y"}}
    rag = lines(["cats sleep all day"] * 5, ["dogs bark"], metadata=kinds)
    assert {n.document_id for n in rag.retrieve("cats sleep", k=3).nodes} == {"a"}
    result = rag.retrieve("cats sleep", k=3, where={"kind": "y"})
    assert [node.document_id for node in result.nodes] == ["b"]


def test_a_summary_passes_a_filter_only_if_all_segments_under_it_pass(lines):
    rows = ["one cat", "two dogs", "six owls"]
    text = "\n".join(rows)
    pages = [(text.index(r), text.index(r) + len(r), {"part": i}) for i, r in enumerate(rows)]
    rag = lines(rows, segments=pages)

    def allowed(*numbers):
        found = rag.retrieve("owls", k=9, where={"part": {"$in": list(numbers)}}).nodes
        return sorted((node.level, node.position) for node in found)

    assert allowed(0, 2) == [(0, 0), (0, 2)]
    assert allowed(0, 1, 2) == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert allowed(7) == []


def test_an_index_without_entities_gives_the_route_global(lines):
    result = lines(["cats sleep", "dogs bark"]).retrieve("Anna and Bert", k=2)
    assert result.route == "global"
    assert len(result.nodes) == 2


def test_an_empty_index_returns_no_nodes(lines):
    result = lines().retrieve("Anna and Bert")
    assert result.nodes == ()
    assert result.context() == ""


def test_at_most_32_entities_of_a_query_form_pairs(lines):
    names = [f"{a}{b}a" for a in "BCDFGHJ" for b in "aeiouyr"]
    rag = lines([" met ".join(names) + "."])
    trace = rag.retrieve(" ".join(names), k=3).trace
    assert len(trace.links) == 32
    assert len(trace.pairs) == 32 * 31 // 2


@pytest.mark.parametrize("max_hops", [0, -1, 101, 2.5, True, "4", None])
def test_invalid_max_hops_raises_an_error(max_hops):
    with pytest.raises(InvalidInputError, match="max_hops"):
        PaperStrategy(max_hops)


def test_an_empty_index_does_not_embed_the_query(open_index):
    class UnusedEmbedder(HashingEmbedder):
        def embed_query(self, text):
            raise AssertionError("embedded the query")

    assert (
        open_index(embedder=UnusedEmbedder(), strategy=PaperStrategy()).retrieve("Anna").nodes == ()
    )
