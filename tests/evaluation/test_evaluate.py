"""Evaluation of indexes and retrievers: which results count, and what the report says."""

from __future__ import annotations

import asyncio
import csv
import io
import json

import pytest

from e2graphrag_integrations import E2GraphRAG, IndexSettings, Models, SourceDocument
from e2graphrag_integrations.errors import EvaluationError, StoppedError
from e2graphrag_integrations.evaluation import (
    Question,
    Setting,
    aevaluate,
    evaluate,
)
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.testing import CapitalizedWordExtractor
from fakes import STORY

TREE = SourceDocument("tree", "The oak stood in Paris.\n\nThe oak fell in Rome. ", title="Oak")


@pytest.fixture
def rag(open_index):
    index = open_index()
    index.add([SourceDocument("story", STORY), TREE])
    return index


def test_documents_nodes_spans_and_answers_are_measured(rag):
    question = "Where did the oak stand?"
    first = rag.retrieve(question, k=1).nodes[0]
    assert first.document_id == "tree"
    asked = [
        Question(question, ["tree"], [("tree", 0, 23)], ["paris"]),
        Question(question, ["tree", "story"]),
        Question(question, [first.node_id], [("story", 0, 10)], ["Atlantis"]),
    ]
    report = evaluate(rag, asked, {"one": Setting(k=1), "all": Setting(k=30)})
    assert [dict(row) for row in report.scores["one"]] == [
        {"recall": 1, "ndcg": 1, "span_recall": 1, "answer_in_context": 1},
        {"recall": 0.5, "ndcg": 1},
        {"recall": 1, "ndcg": 1, "span_recall": 0, "answer_in_context": 0},
    ]
    assert report.scores["all"][1] == {"recall": 1, "ndcg": 1}
    assert report.scores["all"][2]["span_recall"] == 1
    assert report.mean("one", "recall").mean == pytest.approx(2.5 / 3)
    gain = report.difference("all", "recall")
    assert (gain.mean, gain.questions) == (pytest.approx(0.5 / 3), 3)
    assert report.difference("one", "recall", "all").mean == -gain.mean
    with pytest.raises(EvaluationError, match="settings are one, all"):
        report.mean("two", "recall")


def test_white_space_that_no_chunk_contains_does_not_lower_the_span_recall(rag):
    text = rag.document("tree").text
    report = evaluate(rag, [Question("oak", gold_spans=[("tree", 0, len(text))])])
    assert report.mean("default", "span_recall").mean == 1


def test_gold_answers_that_are_not_in_the_index_name_their_lines_before_anything_runs(rag):
    node = rag.retrieve("oak", k=1).nodes[0].node_id
    asked = [
        Question("oak", ["nowhere"], line=3),
        Question("oak", ["tree"], line=4),
        Question("oak", ["tree", node], line=5),
        Question("oak", gold_spans=[("nowhere", 0, 5), ("tree", 900, 950)], line=9),
    ]
    calls = []
    with pytest.raises(EvaluationError) as caught:
        evaluate(rag, asked, progress=calls.append)
    assert caught.value.lines == (3, 5, 9)
    assert str(caught.value) == (
        "the index does not contain all gold answers: line 3 ('oak'): unknown gold id "
        "'nowhere'; line 5 ('oak'): gold_ids contains ids of documents and of nodes: use ids of "
        "one kind; line 9 ('oak'): unknown document 'nowhere' in gold_spans; line 9 ('oak'): the "
        "document 'tree' has no text at 900-950. If it is the id of a node, its document "
        "has changed: mark the answer as a span"
    )
    assert calls == []
    with pytest.raises(EvaluationError, match=r"question 1 \('oak'\): unknown .* and 2 more"):
        evaluate(rag, [Question("oak", ["x"])] * 7)


@pytest.mark.parametrize(
    ("questions", "settings", "message"),
    [
        ([], None, "no questions"),
        (["Who?"], None, "must be Question objects"),
        ([Question("?", answers=["x"])], {}, "no settings"),
        ([Question("?", answers=["x"])], {"a": {"k": 3}}, "not a Setting or retriever"),
    ],
)
def test_bad_arguments_are_typed_errors(rag, questions, settings, message):
    with pytest.raises(EvaluationError, match=message):
        evaluate(rag, questions, settings)


def test_the_report_is_written_as_csv_and_json(rag, tmp_path):
    asked = [Question("oak, or ash?", ["tree"], id="q1", line=2), Question("oak", answers=["x"])]
    report = evaluate(rag, asked, {"a": Setting(k=1), "b": Setting(k=2)})
    report.write(tmp_path / "r.json")
    report.write(tmp_path / "r.CSV")
    assert json.loads((tmp_path / "r.json").read_text()) == report.to_dict()
    with (tmp_path / "r.CSV").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert rows[1] == {
        "id": "q1",
        "line": "2",
        "question": "oak, or ash?",
        "setting": "b",
        "arguments": '{"k": 2}',
        "recall": "1.0",
        "ndcg": "1.0",
        "answer_in_context": "",
    }
    unnamed = evaluate(rag, [Question("oak", ["tree"])])
    assert unnamed.to_csv().startswith("question,setting,arguments,recall")
    for path in ("r.txt", "missing/r.csv"):
        with pytest.raises(EvaluationError):
            report.write(tmp_path / path)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_in_a_table_is_a_formula(rag, text):
    report = evaluate(rag, [Question(text + " oak", ["tree"], id=text)], {text: Setting()})
    [row] = csv.DictReader(io.StringIO(report.to_csv(), newline=""))
    assert [row[name][0] for name in ("id", "question", "setting")] == ["'"] * 3
    assert row["question"] == f"'{text} oak"
    assert float(row["recall"]) == 1
    assert report.questions[0].text == text + " oak"


@pytest.mark.parametrize("arguments", [(5,), ([Question("oak", ["tree"])], 5)])
def test_an_argument_of_another_type_is_refused(rag, arguments):
    with pytest.raises(EvaluationError, match=r"(questions|settings)=5 must"):
        evaluate(rag, *arguments)
    with pytest.raises(EvaluationError, match="progress=5 must be a function"):
        evaluate(rag, [Question("oak", ["tree"])], progress=5)


def test_progress_counts_questions(rag):
    events = []
    evaluate(rag, [Question("oak", ["tree"])] * 2, progress=events.append)
    assert [(one.stage, one.done, one.total) for one in events] == [
        ("evaluate", 1, 2),
        ("evaluate", 2, 2),
    ]


async def test_the_async_form_reports_the_same_and_stops_when_cancelled(rag):
    asked = [Question("oak", ["tree"], answers=["Rome"])] * 3
    assert (await aevaluate(rag, asked)).to_dict() == evaluate(rag, asked).to_dict()
    loop, started, done = asyncio.get_running_loop(), asyncio.Event(), []

    def note(event):
        done.append(event.done)
        loop.call_soon_threadsafe(started.set)

    task = asyncio.create_task(aevaluate(rag, asked * 10_000, progress=note))
    await started.wait()
    task.cancel()
    with pytest.raises((asyncio.CancelledError, StoppedError)):
        await task
    assert len(done) < 30_000


def test_a_page_of_langchain_is_found_by_chunks_that_touch_it():
    documents = pytest.importorskip("langchain_core.documents")
    langchain = pytest.importorskip("e2graphrag_integrations.langchain")
    pages = [
        documents.Document("The oak stood in Paris.", id="p1", metadata={"source": "f", "page": 0}),
        documents.Document("Bob sold a map in Rome.", id="p2", metadata={"source": "f", "page": 1}),
        documents.Document("Carol never left Oslo.", id="note"),
    ]
    options = {"chunk_size": 8, "chunk_overlap": 0, "embeddings": "hashing"}
    asked = [
        Question("Where did the oak stand in Paris?", ["p1"]),
        Question("What did Bob sell in Rome?", ["p2", "note"]),
        Question("Who never left Oslo?", ["f", "note"], [("f", 0, 23)]),
    ]
    with langchain.E2GraphRAGIndex.from_documents(
        pages, **grouped({"extractor": CapitalizedWordExtractor(), **options})
    ) as index:
        settings = {"one": Setting(k=1), "retriever": index.as_retriever(k=1)}
        report = evaluate(index, asked, settings)
        core = evaluate(index.corpus.rag, asked, {"one": Setting(k=1)})
    assert core.scores["one"] == report.scores["one"]
    for name in ("one", "retriever"):
        assert [row["recall"] for row in report.scores[name]] == [1, 0.5, 0.5]


def test_retrievers_of_llama_index_are_settings():
    schema = pytest.importorskip("llama_index.core.schema")
    llama_index = pytest.importorskip("e2graphrag_integrations.llama_index")
    pages = [
        schema.Document(text="The oak stood in Paris.", id_="p1", metadata={"file_path": "f"}),
        schema.Document(text="Bob sold a map in Rome.", id_="p2", metadata={"file_path": "f"}),
        schema.Document(text="Carol never left Oslo.", id_="note"),
    ]
    index = llama_index.E2GraphRAGIndex.from_documents(
        pages,
        embed_model="hashing",
        models=Models(extractor=CapitalizedWordExtractor()),
        settings=IndexSettings(chunk_size=8, chunk_overlap=0),
    )
    asked = [
        Question("Where did the oak stand in Paris?", ["p1"]),
        Question("Who never left Oslo?", ["note"], answers=["Carol"]),
    ]
    report = evaluate(index, asked, {"one": index.as_retriever(similarity_top_k=1)})
    assert [dict(row) for row in report.scores["one"]] == [
        {"recall": 1, "ndcg": 1},
        {"recall": 1, "ndcg": 1, "answer_in_context": 1},
    ]
    assert evaluate(index, asked, {"one": Setting(k=1)}).scores == report.scores
    with pytest.raises(EvaluationError, match="not an index"):
        evaluate(pages, asked)


def test_nodes_of_a_splitter_count_as_their_documents():
    schema = pytest.importorskip("llama_index.core.schema")
    llama_index = pytest.importorskip("e2graphrag_integrations.llama_index")
    texts = {"p1": "The oak stood in Paris.", "p2": "Bob sold a map in Rome."}
    nodes = [
        schema.TextNode(
            id_=f"node-{name}",
            text=text,
            metadata={"file_path": "f", "page_label": name},
            relationships={
                schema.NodeRelationship.SOURCE: schema.RelatedNodeInfo(node_id=name, hash=name)
            },
        )
        for name, text in texts.items()
    ]
    index = llama_index.E2GraphRAGIndex(
        nodes, embed_model="hashing", models=Models(extractor=CapitalizedWordExtractor())
    )
    asked = [Question("Where was the oak in Paris?", [gold]) for gold in ("p1", "node-p1", "f")]
    report = evaluate(index, asked, {"one": index.as_retriever(similarity_top_k=1)})
    assert [row["recall"] for row in report.scores["one"]] == [1, 1, 1]


def test_real_vectors_find_what_words_do_not(real_embedder, names):
    documents = [
        SourceDocument("car", "The automobile would not start in the cold."),
        SourceDocument("cat", "The kitten slept on the sofa all afternoon."),
    ]
    with E2GraphRAG.open(":memory:", embedder=real_embedder, models=Models(extractor=names)) as rag:
        rag.add(documents)
        asked = [Question("What was wrong with the car?", ["car"]), Question("pet", ["cat"])]
        report = evaluate(rag, asked, {"one": Setting(k=1)})
    assert report.mean("one", "recall").mean == 1


def test_gold_spans_of_the_same_text_count_once(rag):
    many = [("tree", n % 3, 999_999 + n) for n in range(9_000)]
    report = evaluate(rag, [Question("oak", gold_spans=many)], {"all": Setting(k=30)})
    assert report.mean("all", "span_recall").mean == 1
