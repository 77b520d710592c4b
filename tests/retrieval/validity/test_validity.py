"""What held at a date, and the newest of several versions of a document."""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    HybridStrategy,
    IndexSettings,
    Models,
    PaperStrategy,
    Segment,
    SourceDocument,
    TreeTraversalStrategy,
    Validity,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.validity.options import as_validity
from e2graphrag_integrations.retrieval.validity.timeline import newest_first
from fakes import NameExtractor
from strategies import examples
from version_set import count_first, make_facts

QUESTION = "Who pays the rent of the hall?"
CHAIN = [
    SourceDocument("v1", "Anna pays the rent of the hall. The rent is due in May.", metadata={}),
    SourceDocument("v2", "Bert pays the rent for the hall.", metadata={"supersedes": "v1"}),
    SourceDocument("v3", "Cleo settles it.", metadata={"supersedes": "v2"}),
]
OTHERS = [SourceDocument(f"o{n}", f"The hall of Oslo has {n} doors.") for n in range(2, 5)]


def dated(**dates):
    """Return documents with the given metadata, by id."""
    return [
        SourceDocument(id_, f"{id_.title()} pays the rent of the hall.", metadata=metadata)
        for id_, metadata in dates.items()
    ]


@pytest.fixture
def open_dated(open_index):
    def opened(**dates):
        rag = open_index()
        rag.add(dated(**dates))
        return rag

    return opened


def ids(result):
    return [node.document_id for node in result.nodes]


# What held at a date


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("as_of", "holds"),
    [
        ("2023-12-31", False),
        ("2024-01-01", True),
        ("2024-03", True),
        (dt.date(2024, 6, 30), True),
        ("2024-07-01", False),
        (2023, False),
        (2024, False),  # it means the end of 2024
        (dt.datetime(2024, 6, 30, 23, 59, 59, tzinfo=dt.UTC), True),
        ("2024-07-01T00:30+01:00", True),
        ("2024-07-01T00:30", False),
    ],
    ids=str,
)
def test_both_ends_of_a_validity_are_included(open_dated, as_of, holds):
    rag = open_dated(anna={"valid_from": "2024", "valid_to": "2024-06-30"}, bert={})
    assert sorted(ids(rag.retrieve(QUESTION, as_of=as_of))) == ["anna", "bert"][1 - holds :]


def test_an_open_end_is_excluded_on_request(open_dated):
    rag = open_dated(anna={"valid_to": "2024-07"}, bert={"valid_from": "2024-07"})
    assert sorted(ids(rag.retrieve(QUESTION, as_of="2024-07"))) == ["anna", "bert"]
    half_open = Validity("2024-07", closed=False)
    assert ids(rag.retrieve(QUESTION, as_of=half_open)) == ["bert"]
    assert ids(rag.retrieve(QUESTION, as_of=replace(half_open, at="2024-06"))) == ["anna"]


def test_a_missing_or_blank_date_leaves_a_side_open(open_dated):
    rag = open_dated(
        always={},
        since={"valid_from": "2020", "valid_to": None},
        until={"valid_from": "", "valid_to": "2030"},
        never={"valid_from": "2030", "valid_to": "2020"},
    )
    assert sorted(ids(rag.retrieve(QUESTION, as_of="2025"))) == ["always", "since", "until"]


def test_the_user_chooses_the_keys(open_dated):
    rag = open_dated(anna={"begin": "2020", "end": "2021"}, bert={"valid_to": "1999"})
    keys = {"at": "2020-05", "valid_from": "begin", "valid_to": "end"}
    for as_of in (keys, Validity(**keys)):
        assert sorted(ids(rag.retrieve(QUESTION, as_of=as_of))) == ["anna", "bert"]
    assert ids(rag.retrieve(QUESTION, as_of={**keys, "at": "2022"})) == ["bert"]


def test_excluded_documents_use_up_neither_k_nor_a_budget(open_dated):
    rag = open_dated(**{f"old{n}": {"valid_to": "2020"} for n in range(30)})
    rag.add([SourceDocument("now", "A hall needs a tenant.", metadata={"valid_from": "2021"})])
    for options in ({"k": 1}, {"token_budget": 12}, {"k": 1, "strategy": PaperStrategy()}):
        assert ids(rag.retrieve(QUESTION, as_of="2024", **options)) == ["now"]


def test_a_filter_and_a_scope_hold_too(open_dated):
    rag = open_dated(
        anna={"tenant": "a", "valid_to": "2020"},
        bert={"tenant": "a", "year": 1},
        cleo={"tenant": "b", "valid_to": "bad"},
        dina={"tenant": "a", "year": 2},
    )
    scope = rag.scoped({"tenant": "a"})
    assert sorted(ids(scope.retrieve(QUESTION, as_of="2024"))) == ["bert", "dina"]
    assert ids(scope.retrieve(QUESTION, as_of="2024", where={"year": 1})) == ["bert"]
    assert ids(rag.retrieve(QUESTION, as_of="2024", where={"year": 2})) == ["dina"]


def test_nothing_held_gives_an_empty_result_with_the_reason(open_index, open_dated):
    rag = open_dated(anna={"valid_from": "2020"})
    result = rag.retrieve(QUESTION, as_of="1999")
    assert result.nodes == ()
    assert result.trace.reason.startswith("as of 1999, 1 node(s) left out; no node passes")
    assert result.trace.cuts["as_of"] == 1
    assert "cut by as_of: 1 node(s)" in result.trace.explain()
    assert open_index().retrieve(QUESTION, as_of="1999").nodes == ()


def test_the_reasons_say_why_a_node_holds(open_dated):
    rag = open_dated(anna={"valid_from": "2020", "valid_to": "2030"}, bert={"valid_from": "2019"})
    reasons = {
        one.document_id: one.reasons[-1] for one in rag.retrieve(QUESTION, as_of="2024").nodes
    }
    assert reasons == {
        "anna": "holds as of 2024: from 2020 to 2030",
        "bert": "holds as of 2024: from 2019",
    }


def test_a_chunk_over_two_segments_must_hold_in_both(open_index):
    rag = open_index()
    text = "Anna pays the rent. Bert pays the rent."
    segments = [Segment(0, 20, {"valid_to": "2020"}), Segment(20, len(text), {})]
    rag.add([SourceDocument("a", text, segments=segments)])
    assert ids(rag.retrieve(QUESTION, as_of="2020")) == ["a"]
    assert ids(rag.retrieve(QUESTION, as_of="2021")) == []


@pytest.mark.parametrize("key", ["valid_from", "valid_to"])
def test_a_document_with_an_invalid_date_raises_unless_it_is_excluded(open_dated, key):
    rag = open_dated(anna={key: "soon", "bad": True}, bert={})
    assert len(rag.retrieve(QUESTION).nodes) == 2
    with pytest.raises(
        InvalidInputError, match=f"document 'anna' has {key}='soon', which is not a date"
    ):
        rag.retrieve(QUESTION, as_of="2024")
    assert ids(rag.retrieve(QUESTION, as_of="2024", where={"bad": None})) == []
    assert ids(rag.retrieve(QUESTION, as_of="2024", where={"bad": {"$exists": False}})) == ["bert"]
    assert len(rag.retrieve(QUESTION, as_of=Validity("2024", **{key: None})).nodes) == 2


@pytest.mark.parametrize(
    ("as_of", "message"),
    [
        ("yesterday", "as_of='yesterday' must be a date"),
        ("", "as_of='' must be a date"),
        (True, "must be a date"),
        (3.5, "must be a date"),
        ({"vald_from": "a"}, "did you mean 'valid_from'"),
        ({"zzz": "a"}, "the keys are at, valid_from"),
        ({"valid_from": ""}, "must be a metadata key or None"),
        ({"source": 7}, "must be a metadata key or None"),
        ({"closed": "no"}, "closed='no' must be True or False"),
    ],
    ids=str,
)
def test_an_invalid_date_or_key_raises(open_index, as_of, message):
    with pytest.raises(InvalidInputError, match=message):
        open_index().retrieve(QUESTION, as_of=as_of)


def test_none_is_no_date():
    with pytest.raises(InvalidInputError, match="omit it"):
        as_validity(None)


PERIODS = st.one_of(
    st.integers(2018, 2022),
    st.dates(dt.date(2019, 12, 1), dt.date(2021, 2, 1)),
    st.datetimes(
        dt.datetime.fromisoformat("2020-01-01T00:00"),
        dt.datetime.fromisoformat("2020-01-04T00:00"),
        timezones=st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=9)), None]),
    ),
    st.dates(dt.date(2019, 12, 1), dt.date(2021, 2, 1)).map(lambda one: f"{one:%Y-%m}"),
    st.none(),
)


def stored(value):
    """Return a date as metadata, which are JSON."""
    return value.isoformat() if isinstance(value, dt.date) else value


def bounds(value):
    """Return the first and the last second of a date, worked out with `datetime` alone."""
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        return moment, moment
    if isinstance(value, dt.date):
        first, after = value, value + dt.timedelta(1)
    elif isinstance(value, int):
        first, after = dt.date(value, 1, 1), dt.date(value + 1, 1, 1)
    else:
        first = dt.date.fromisoformat(f"{value}-01")
        after = (first + dt.timedelta(32)).replace(day=1)
    start, end = (dt.datetime(d.year, d.month, d.day, tzinfo=dt.UTC) for d in (first, after))
    return start, end - dt.timedelta(milliseconds=1)


@examples(25)
@given(
    periods=st.lists(st.tuples(PERIODS, PERIODS), min_size=1, max_size=6),
    at=PERIODS.filter(lambda one: one is not None),
    options=st.sampled_from([{"k": 2}, {"k": 50}, {"token_budget": 40}]),
)
@example([(2020, None), (None, 2020)], dt.datetime(2020, 1, 1, tzinfo=dt.UTC), {"k": 2})
def test_a_date_equals_filtering_by_hand(periods, at, options):
    moment = bounds(at)[1]
    held = {
        f"d{number}": (start is None or bounds(start)[0] <= moment)
        and (end is None or moment <= bounds(end)[1])
        for number, (start, end) in enumerate(periods)
    }
    documents = [
        SourceDocument(
            id_,
            f"Tenant {id_} pays the rent of the hall {number} times.",
            metadata={"valid_from": stored(start), "valid_to": stored(end)},
        )
        for number, (id_, (start, end)) in enumerate(zip(held, periods, strict=True))
    ]
    models = Models(extractor=NameExtractor())
    with E2GraphRAG.open(":memory:", embedder=HashingEmbedder(), models=models) as rag:
        rag.add(documents)
        by_date = rag.retrieve(QUESTION, as_of=at, **options)
        where = {"document_id": {"$in": [id_ for id_, holds in held.items() if holds]}}
        by_hand = rag.retrieve(QUESTION, where=where, **options)
    shown = [
        [(node.node_id, node.text, node.score, node.relevance) for node in one.nodes]
        for one in (by_date, by_hand)
    ]
    assert shown[0] == shown[1]


# The newest of several versions


@pytest.mark.parametrize(
    "options",
    [
        {"k": 1},
        {"k": 10},
        {"token_budget": 10},
        {"token_budget": 500},
        {"k": 3, "strategy": PaperStrategy()},
        {"k": 3, "strategy": TreeTraversalStrategy()},
        {"k": 3, "strategy": HybridStrategy(bm25_weight=0), "fill": True},
        {"k": 3, "history": ["Who is Anna?"]},
        {"k": 3, "boost": {"documents": {"v1": 5.0}}},
        {"k": 3, "expand": "leaves"},
    ],
    ids=str,
)
def test_the_newest_version_is_first_and_older_ones_are_marked(open_index, options):
    rag = open_index()
    rag.add([*CHAIN, *OTHERS])
    result = rag.retrieve(QUESTION, **options)
    assert ids(result)[0] == "v3"
    assert result.nodes[0].superseded_by is None
    marks = {node.document_id: node.superseded_by for node in result.nodes}
    assert {id_: one for id_, one in marks.items() if id_ in ("v1", "v2")} == {
        id_: "v3" for id_ in marks if id_ in ("v1", "v2")
    }
    scores = [node.score for node in result.nodes]
    assert scores == sorted(scores, reverse=True)
    assert len(ids(result)) == len(set(ids(result)))
    reasons = {node.document_id: node.reasons for node in result.nodes}
    assert "newest of 3 versions" in reasons["v3"]
    for old in {"v1", "v2"} & reasons.keys():
        assert "older version: superseded by 'v3'" in reasons[old]


def test_an_older_version_stays_first_if_nothing_in_the_newest_is_found(open_index):
    rag = open_index()
    rag.add(CHAIN)
    by_words = HybridStrategy(dense_weight=0)
    nodes = rag.retrieve("Who pays the rent in May?", strategy=by_words, k=2).nodes
    assert {node.superseded_by for node in nodes} == {"v3"}


def test_sources_in_contexts_name_the_newest_version(open_index):
    rag = open_index()
    rag.add(CHAIN)
    lines = [one for one in rag.retrieve(QUESTION).cited_context().split("\n") if one[:1] == "["]
    assert [line.rpartition(", ")[2] for line in lines[1:]] == ["superseded by v3"] * 2


def test_without_links_nothing_changes(open_index):
    plain, linked = open_index(), open_index()
    plain.add([replace(one, metadata={}) for one in CHAIN])
    linked.add(CHAIN)
    expected = plain.retrieve(QUESTION, k=10)
    found = linked.retrieve(QUESTION, k=10, as_of=Validity(supersedes=None))
    assert [(node.node_id, node.reasons, node.score) for node in found.nodes] == [
        (node.node_id, node.reasons, node.score) for node in expected.nodes
    ]
    assert ids(linked.retrieve(QUESTION, k=10)) != ids(expected)


def test_a_link_to_a_filtered_or_unknown_version_counts_for_nothing(open_index):
    rag = open_index()
    rag.add([*CHAIN, *dated(dina={"supersedes": ["nobody", 7, None]}, emil={"supersedes": 3})])
    for where in ({"document_id": {"$ne": "v3"}}, {"document_id": {"$in": ["v1", "v2"]}}):
        nodes = rag.retrieve(QUESTION, where=where).nodes
        marks = {node.document_id: node.superseded_by for node in nodes}
        assert (marks["v1"], marks["v2"]) == ("v2", None)
    [node] = rag.retrieve(QUESTION, where={"document_id": "v1"}).nodes
    assert node.superseded_by is None
    # The chain is known although its middle is excluded.
    nodes = rag.retrieve(QUESTION, where={"document_id": {"$ne": "v2"}}).nodes
    assert {node.document_id: node.superseded_by for node in nodes}["v1"] == "v3"


def test_a_scope_knows_no_version_outside_of_it(open_index):
    rag = open_index()
    rag.add([replace(one, metadata={**one.metadata, "id": one.id}) for one in CHAIN])
    scope = rag.scoped({"id": {"$in": ["v1", "v2"]}})
    result = scope.retrieve(QUESTION)
    assert [(node.document_id, node.superseded_by) for node in result.nodes] == [
        ("v2", None),
        ("v1", "v2"),
    ]
    assert "v3" not in str(result)


def test_the_newest_is_that_of_the_date(open_index):
    rag = open_index()
    years = {"v1": "2019", "v2": "2021-05", "v3": "2023"}
    rag.add([replace(one, metadata={**one.metadata, "date": years[one.id]}) for one in CHAIN])
    for at, expected in (
        ("2018", []),
        ("2020", ["v1"]),
        ("2021-05", ["v2", "v1"]),
        ("2024", ["v3", "v2", "v1"]),
    ):
        assert ids(rag.retrieve(QUESTION, as_of=at)) == expected
    node = rag.retrieve(QUESTION, as_of="2022").nodes[1]
    assert node.reasons[-1] == "older version: superseded by 'v2' as of 2022"


def test_a_valid_from_replaces_the_date_of_a_version(open_dated):
    rag = open_dated(
        anna={"valid_from": "2020", "date": "2030"},
        bert={"supersedes": "anna", "valid_from": "2022"},
    )
    assert ids(rag.retrieve(QUESTION, as_of="2021")) == ["anna"]
    assert ids(rag.retrieve(QUESTION, as_of="2022")) == ["bert", "anna"]


def test_of_two_successors_the_later_one_is_the_newest(open_dated):
    rag = open_dated(
        anna={"date": "2020"},
        bert={"date": "2022", "supersedes": "anna"},
        cleo={"date": "2021", "supersedes": ["anna"]},
    )
    nodes = rag.retrieve(QUESTION).nodes
    assert {node.document_id: node.superseded_by for node in nodes} == {
        "anna": "bert",
        "bert": None,
        "cleo": "bert",
    }


def test_in_a_circle_the_dates_decide_and_one_warning_names_it(open_dated, caplog):
    rag = open_dated(
        anna={"date": "2022", "supersedes": "bert"},
        bert={"date": "2021", "supersedes": "anna"},
        self={"supersedes": "self"},
    )
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            nodes = rag.retrieve(QUESTION).nodes
    marks = {node.document_id: node.superseded_by for node in nodes}
    assert marks == {"anna": None, "bert": "anna", "self": None}
    [warning] = [one.getMessage() for one in caplog.records if "circle" in one.getMessage()]
    assert "'bert', 'anna'" in warning
    rag.add(dated(cleo={"supersedes": "bert"}))
    marks = {node.document_id: node.superseded_by for node in rag.retrieve(QUESTION).nodes}
    assert (marks["anna"], marks["cleo"]) == ("cleo", None)


def test_documents_of_one_source_are_versions_if_their_dates_differ(open_dated):
    rag = open_dated(
        anna={"url": "x", "date": "2020"},
        bert={"url": "x", "date": "2021"},
        cleo={"url": "x", "date": "2021"},
        dina={"url": "x"},
        emil={"url": "y", "date": "2010"},
        fred={"date": "2009"},
    )
    nodes = rag.retrieve(QUESTION, k=10).nodes
    assert {node.superseded_by for node in nodes} == {None}  # a source is often a publisher
    nodes = rag.retrieve(QUESTION, k=10, as_of=Validity(source="url")).nodes
    marks = {node.document_id: node.superseded_by for node in nodes}
    assert {id_ for id_, newest in marks.items() if newest} == {"anna"}
    assert marks["anna"] == "bert"
    rag.add(dated(gina={"url": "x", "date": "soon"}))
    with pytest.raises(InvalidInputError, match="document 'gina' has date='soon'"):
        rag.retrieve(QUESTION, as_of=Validity(source="url"))
    assert rag.retrieve(QUESTION, as_of="2024").nodes


def test_a_new_version_is_known_after_an_update(open_index):
    rag = open_index()
    rag.add(CHAIN[:1])
    assert rag.retrieve(QUESTION).nodes[0].superseded_by is None
    rag.add(CHAIN[1:2])
    assert ids(rag.retrieve(QUESTION)) == ["v2", "v1"]
    rag.delete(["v2"])
    assert rag.retrieve(QUESTION).nodes[0].superseded_by is None


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("budget", [200, None])
def test_each_passage_of_a_long_version_follows_one_of_the_newest(open_index, budget):
    rag = open_index(chunk_size=8, chunk_overlap=0)
    lines = "Anna pays the rent in May. Bert pays the rent in June. Cleo owns the hall. "
    fill = "".join(f"The sea at Oslo has {n} waves. " for n in range(40))
    rag.add(
        [
            SourceDocument("old", lines + fill),
            SourceDocument(
                "new", lines.replace("pays", "settles") + fill, metadata={"supersedes": "old"}
            ),
        ]
    )
    found = ids(rag.retrieve(QUESTION, k=6 if budget is None else None, token_budget=budget))
    for place, id_ in enumerate(found):
        older = found[: place + 1].count("old")
        assert id_ == "new" or found[:place].count("new") >= min(older, found.count("new"))
    assert found[0] == "new"


@examples(60)
@given(data=st.data(), size=st.integers(0, 12), reach=st.integers(0, 12))
def test_only_newest_passages_move_and_only_up(data, size, reach):
    kinds = data.draw(st.lists(st.sampled_from(["new", "old", ""]), min_size=size, max_size=size))
    groups = data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    is_new, is_old = ([kind == one for kind in kinds] for one in ("new", "old"))
    order = newest_first(groups, is_new, is_old, reach)
    places = [place for place, _ in order]
    assert sorted(places) == list(range(size))
    assert [by for _, by in order] == sorted(by for _, by in order)
    assert [one for one in places if not is_new[one]] == [
        one for one in range(size) if not is_new[one]
    ]
    for group in set(groups):
        own = [kinds[one] for one in places if groups[one] == group]
        if "new" in own and "old" in own:
            assert own.index("new") < own.index("old")


@examples(15)
@given(
    links=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8),
    dates=st.lists(st.none() | st.integers(2019, 2022), min_size=6, max_size=6),
    at=st.none() | st.integers(2018, 2023),
)
def test_any_links_give_newest_versions_and_lose_nothing(links, dates, at):
    documents = [
        SourceDocument(
            f"d{number}",
            f"Tenant {number} pays the rent of hall {number * 7}.",
            metadata={
                "supersedes": [f"d{old}" for old, new in links if new == number],
                "date": date,
            },
        )
        for number, date in enumerate(dates)
    ]
    models = Models(extractor=NameExtractor())
    with E2GraphRAG.open(":memory:", embedder=HashingEmbedder(), models=models) as rag:
        rag.add(documents)
        as_of = Validity(at)
        nodes = rag.retrieve(QUESTION, k=10, fill=True, as_of=as_of).nodes
        again = rag.retrieve(QUESTION, k=10, fill=True, as_of=as_of).nodes
    assert nodes == again
    marks = {node.document_id: node.superseded_by for node in nodes}
    if at is None:
        assert len(marks) == len(documents)
    joined = nx.Graph((f"d{old}", f"d{new}") for old, new in links if old != new)
    for old, newest in marks.items():
        if newest is not None:
            assert marks[newest] is None
            versions = nx.node_connected_component(joined, old)
            found = [one for one in marks if one in versions]
            assert marks[found[0]] is None  # several may be the newest if no date decides
    for old, new in joined.subgraph(marks).edges:
        assert marks[old] or marks[new]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("dates", "older"), [([None, None], set()), ([2023, 2024], {"travel"})])
def test_two_successors_without_an_order_are_both_the_newest(dates, older):
    with E2GraphRAG.open(":memory:", embedder=HashingEmbedder()) as rag:
        rag.add(SourceDocument("handbook", "A trip costs 300 euros at most."))
        for name, date in zip(("travel", "expenses"), dates, strict=True):
            metadata = {"supersedes": "handbook", "date": date}
            rag.add(SourceDocument(name, f"{name}: a trip costs 400 euros.", metadata=metadata))
        nodes = rag.retrieve("What does a trip cost at most?", k=3).nodes
    assert {node.document_id for node in nodes if node.superseded_by} == {"handbook", *older}


# Forty facts in three versions


@pytest.fixture(scope="module", params=["hashing", pytest.param("real", marks=pytest.mark.slow)])
def facts(request):
    embedder = (
        HashingEmbedder()
        if request.param == "hashing"
        else request.getfixturevalue("real_embedder")
    )
    extractor = (
        NameExtractor() if request.param == "hashing" else request.getfixturevalue("real_extractor")
    )
    found, documents = make_facts()
    settings = IndexSettings(chunk_size=100, chunk_overlap=0)
    with E2GraphRAG.open(
        ":memory:", embedder=embedder, models=Models(extractor=extractor), settings=settings
    ) as rag:
        rag.add(documents)
        yield rag, found


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"k": 1}, {"token_budget": 300}], ids=str)
@pytest.mark.parametrize("links", [Validity(), Validity(supersedes=None, source="page_of")])
def test_the_right_version_of_forty_facts_is_first(facts, links, options):
    rag, questions = facts
    at_date, newest, plain = count_first(rag, questions, links, **options)
    print(f"\nfirst of 40: {at_date} with as_of, {newest} newest, {plain} without links")  # noqa: T201 - the figures of docs/time.md
    assert at_date == newest == len(questions) == 40
    assert plain < 20


# Cost


def test_a_snapshot_looks_for_links_once(open_index):
    rag = open_index()
    rag.add(CHAIN)
    made = []

    def make(snapshot):
        made.append(snapshot)
        return len(snapshot.documents)

    for _ in range(2):
        assert rag.read_snapshot(lambda snapshot, _: snapshot.derived(make)) == 3
    assert len(made) == 1
