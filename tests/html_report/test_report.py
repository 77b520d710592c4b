"""The file of a report: its data, its policy, hostile texts, limits and bad input."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import E2GraphRAGError, InvalidInputError, StoreError
from e2graphrag_integrations.html_report import contents, write, write_report
from e2graphrag_integrations.html_report.assemble import _script
from e2graphrag_integrations.types import Segment
from e2graphrag_integrations.views.answer import ask
from e2graphrag_integrations.views.graph import neighborhood
from e2graphrag_integrations.views.json_values import to_json
from fakes import STORY, NamesAndNouns

HOSTILE = (
    "</script><script>alert(1)</script><!-- <svg onload=alert(2)> Anna & Bert "
    "\u2028\u2029 javascript:alert(3) ${x} \\u003c ' \" ` ]]>. Anna met Bert in Oslo. "
)
EMOJI = "Anna 😀 met 𝒞leo in Oslo. " * 200


class Page(HTMLParser):
    """The elements of a report, and the texts of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.blocks: dict[str, object] = {}
        self.inline: dict[str, list[str]] = {"script": [], "style": []}
        self.policy = ""
        self._open: tuple[str, dict[str, str | None]] | None = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        own = dict(attrs)
        self.tags.append(tag)
        self.attributes += attrs
        if own.get("http-equiv") == "Content-Security-Policy":
            self.policy = own["content"]
        self._open = (tag, own) if tag in self.inline else None

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open is None:
            return
        tag, own = self._open
        if own.get("type") == "application/json":
            self.blocks[own["id"].removeprefix("data-")] = json.loads(data)
        else:
            self.inline[tag].append(data)


def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture
def rag(open_index):
    rag = open_index(chunk_size=64, chunk_overlap=8, group_size=3)
    rag.add(
        [
            SourceDocument("story", STORY * 9, title="A Map", metadata={"kind": "tale"}),
            SourceDocument("emoji", EMOJI, metadata={"kind": "joke"}),
            SourceDocument(HOSTILE[:60], HOSTILE * 5, HOSTILE[:40], {HOSTILE[:30]: HOSTILE}),
        ]
    )
    return rag


@pytest.fixture
def out(tmp_path):
    return tmp_path / "report.html"


def test_report_contains_the_views_of_the_index(rag, out):
    questions = ["Who gave Anna a map?", "How is Cleo connected with Emil?"]
    written = write_report(rag, out, questions=questions)
    page = read(out)
    assert written.to_dict() == {
        "path": str(out),
        "bytes": out.stat().st_size,
        "answers": 2,
        "documents": 3,
        "left_out": 0,
        "entities": len(rag.entities()),
    }
    start = page.blocks["start"]
    assert (start["questions"], start["documents"]) == (questions, 3)
    assert start["statistics"]["chunks"] == rag.stats().chunks
    for place, question in enumerate(questions):
        shown = page.blocks[f"answer-{place}"]
        expected = to_json(ask(rag, question))
        assert [node["node_id"] for node in shown["nodes"]] == [
            node["node_id"] for node in expected["nodes"]
        ]
    assert page.blocks["answer-1"]["paths"]
    graph = page.blocks["graph"]
    assert {one["info"]["name"] for one in graph["details"]} == {e.name for e in rag.entities()}
    [anna] = [one for one in graph["neighborhoods"] if one["nodes"][0][0] == "anna"]
    expected = neighborhood(rag, "anna", contents.NEIGHBORS)
    names = [node[0] for node in anna["nodes"]]
    assert names == [node.name for node in expected.nodes]
    assert [[names[a], names[b], weight] for a, b, weight in anna["edges"]] == [
        [edge.source, edge.target, edge.weight] for edge in expected.edges
    ]
    for edge in graph["sentences"]:
        for hop in edge["sentences"]:
            text = rag.document(hop["document_id"]).text
            assert hop["text"] == text[hop["start"] : hop["end"]]


def test_graph_has_names_as_the_texts_write_them(open_index, out):
    rag = open_index(extractor=NamesAndNouns())
    rag.add(
        SourceDocument("story", "A thing saw Weena at the harbour. Weena met McTavish in time.")
    )
    write_report(rag, out)
    graph = read(out).blocks["graph"]
    labels = {one["name"]: (one["label"], one["is_name"]) for one in graph["items"]}
    assert labels["mctavish"] == ("McTavish", True)
    assert labels["thing"] == ("thing", False)
    assert [one["mentions"] for one in graph["items"]] == sorted(
        (one["mentions"] for one in graph["items"]), reverse=True
    )
    [weena] = [one for one in graph["neighborhoods"] if one["nodes"][0][0] == "weena"]
    assert {node[4] for node in weena["nodes"]} == {"A", "Weena", "McTavish"}
    assert weena["nouns"] == 3


def test_trees_and_texts_are_complete_and_count_code_points(rag, out):
    write_report(rag, out)
    page = read(out)
    for id_, _, chunks, _, _, place in page.blocks["documents"]:
        shown = page.blocks[f"text-{place}"]
        text, nodes = "".join(shown["pieces"]), shown["nodes"]
        assert text == rag.document(id_).text
        assert {len(piece) for piece in shown["pieces"][:-1]} <= {contents.PIECE}
        leaves, todo = [], list(nodes["roots"])
        while todo:
            node = todo.pop(0)
            count = nodes["count"][node]
            below = list(range(nodes["first"][node], nodes["first"][node] + count))
            assert bool(count) == bool(nodes["level"][node]) == (str(node) in nodes["texts"])
            assert all(nodes["start"][node] <= nodes["start"][child] for child in below)
            leaves += [] if count else [node]
            todo = below + todo
        assert len(leaves) == chunks
        spans = [(nodes["start"][leaf], nodes["end"][leaf]) for leaf in leaves]
        assert spans == sorted(spans)
        assert not re.search(r"\S", text[: spans[0][0]] + text[spans[-1][1] :])


def test_only_the_hashed_script_and_style_may_run(rag, out):
    write_report(rag, out, questions=[HOSTILE])
    page = read(out)
    policy = dict(part.strip().partition(" ")[::2] for part in page.policy.split(";"))
    assert policy["default-src"] == "'none'"
    for tag in ("script", "style"):
        hashes = [
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            for text in page.inline[tag]
        ]
        assert policy[f"{tag}-src"].split() == hashes
    assert len(page.inline["script"]) == 2
    assert not {"img", "link", "iframe", "svg", "object", "base", "form"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "style"]
    links = {value for name, value in page.attributes if name in {"href", "src"}}
    assert all(link.startswith("#") for link in links)


def test_modules_join_to_one_script():
    script = _script()
    assert not re.search(r"^\s*(import|export) ", script, re.MULTILINE)
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names)) > 30
    assert "innerHTML" not in script
    assert "</script" not in script


def test_hostile_texts_stay_data(rag, out):
    write_report(rag, out, questions=["Anna </script><b>?"])
    raw, page = out.read_text(encoding="utf-8"), read(out)
    assert raw.count("<script") == raw.count("</script") == len(page.blocks) + 2
    assert "<!--" not in raw.partition("<body>")[2].replace("<!doctype", "")
    rows = {row[0]: row for row in page.blocks["documents"]}
    assert rows[HOSTILE[:60]][1] == HOSTILE[:40]
    assert any(
        "".join(value["pieces"]) == HOSTILE * 5
        for name, value in page.blocks.items()
        if name.startswith("text-")
    )
    for value in re.findall(r'type="application/json"[^>]*>(.*)</script>', raw):
        assert not set("<>&\u2028\u2029") & set(value)


def test_a_scope_is_all_that_a_report_contains(rag, out):
    write_report(rag.scoped({"kind": "joke"}), out, questions=["Who gave Anna a map?"])
    raw = out.read_text(encoding="utf-8")
    for word in ("Dora", "dora", "Emil", "A Map", "story", "harbour"):
        assert not re.search(rf"\b{word}\b", raw.partition("data-start")[2].partition("\n")[0])
        assert not re.search(rf"\b{word}\b", raw.rpartition("</script>\n<script type=")[2])
    page = read(out)
    assert [row[0] for row in page.blocks["documents"]] == ["emoji"]
    assert "kind" in page.blocks["start"]["facts"][-1]["values"]["scope"]
    assert "Dora" not in json.dumps(page.blocks)


def test_partly_visible_document_shows_only_its_visible_chunks(open_index, out):
    rag = open_index(split_segments=True, group_size=2)
    segments = [Segment(0, 60, {"tenant": "a"}), Segment(60, 120, {"tenant": "b"})]
    rag.add(
        [SourceDocument("both", "Anna met Bert. " * 4 + "Cleo met Dora. " * 4, segments=segments)]
    )
    write_report(rag.scoped({"tenant": "a"}), out)
    page = read(out)
    shown = page.blocks["text-0"]
    assert shown["pieces"] is None
    assert "Anna met Bert." in json.dumps(shown["nodes"]["texts"])
    assert "Dora" not in json.dumps(page.blocks)


def test_a_text_that_a_writer_changes_meanwhile_comes_from_the_nodes(rag, monkeypatch):
    before = contents.document(rag, "story")
    newer = SourceDocument("story", "Something else.")
    monkeypatch.setattr(rag, "document", lambda _: newer)
    found = contents.document(rag, "story")
    assert found["pieces"] is None
    assert len(found["nodes"]["texts"]) == len(before["nodes"]["level"])
    assert contents.document(rag, "nowhere") is None


@pytest.mark.slow
def test_documents_beyond_the_limit_are_named_and_those_of_answers_come_first(rag, out):
    rag.add([SourceDocument("zebra", "The zebra ate the quince. " * 20)])
    written = write_report(rag, out, questions=["zebra quince"], max_mb=0.002)
    page = read(out)
    rows = {row[0]: row for row in page.blocks["documents"]}
    assert rows["zebra"][5] == 0
    assert (written.documents, written.left_out) == (1, 3)
    note = page.blocks["start"]["tree_note"]
    assert (note["code"], note["values"]["included"], note["values"]["total"]) == (
        "some_texts",
        1,
        4,
    )
    assert page.blocks["start"]["tree_note"] in page.blocks["start"]["notes"]
    empty = write_report(rag, out, max_mb=0, replace=True)
    assert (empty.documents, empty.left_out) == (0, 4)


def test_documents_that_are_not_indexed_are_counted(rag, out):
    rag.add([SourceDocument("later", "Anna waits.")], wait=False)
    write_report(rag, out)
    notes = read(out).blocks["start"]["notes"]
    assert {"code": "unindexed", "values": {"counts": {"pending": 1}}} in notes


def test_an_empty_index_has_a_report(open_index, out):
    written = write_report(open_index(), out, questions=["Who?"])
    assert (written.documents, written.entities, written.answers) == (0, 0, 1)
    assert read(out).blocks["answer-0"]["nodes"] == []


@pytest.mark.slow
def test_an_existing_report_is_replaced_only_on_request(rag, out):
    write_report(rag, out)
    before = out.read_text(encoding="utf-8")
    rag.delete("story")
    with pytest.raises(InvalidInputError, match="already exists"):
        write_report(rag, out)
    assert out.read_text(encoding="utf-8") == before
    write_report(rag, out, replace=True)
    assert "story" not in {row[0] for row in read(out).blocks["documents"]}
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


def test_no_other_file_is_ever_replaced(rag, tmp_path, open_index):
    index = tmp_path / "novels.e2g"
    open_index(index).add([SourceDocument("one", "Anna met Bert.")])
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><title>Mine</title>")
    link = tmp_path / "link.html"
    link.symlink_to(tmp_path / "nowhere.html")
    fifo = tmp_path / "fifo.html"
    os.mkfifo(fifo)
    before = {path.name: path.read_bytes() for path in (index, page)}
    for path in (index, page, link, fifo, Path(os.devnull)):
        with pytest.raises(InvalidInputError, match="not a report"):
            write_report(rag, path, replace=True)
    assert before == {path.name: path.read_bytes() for path in (index, page)}
    assert link.is_symlink()
    assert fifo.is_fifo()


def test_a_failed_write_leaves_the_old_report_and_nothing_else(rag, out, monkeypatch):
    write_report(rag, out)
    before = out.read_bytes()

    def fail(name, _value):
        if name == "documents":
            raise OSError(errno.ENOSPC, "No space left on device")
        return ""

    monkeypatch.setattr(write, "block", fail)
    with pytest.raises(StoreError, match="No space left"):
        write_report(rag, out, replace=True)
    assert out.read_bytes() == before
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": ""}, "path"),
        ({"path": "missing/report.html"}, "folder .*missing does not exist"),
        ({"path": "."}, "is a folder"),
        ({"questions": "Who?"}, "list of texts"),
        ({"questions": [3]}, "question must be a string"),
        ({"questions": [" "]}, "question"),
        ({"questions": ["Who?"] * 101}, "101 questions"),
        ({"max_mb": -1}, "max_mb=-1"),
        ({"max_mb": 501}, "max_mb=501"),
        ({"max_mb": float("nan")}, "max_mb=nan"),
        ({"max_mb": "3"}, "max_mb='3'"),
        ({"replace": 1}, "replace=1"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(
    open_index, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(E2GraphRAGError, match=message):
        write_report(open_index(), **({"path": "report.html"} | arguments))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("texts", "language", "expected"),
    [
        (["Anna met Bert."], None, "en"),
        (["Anna met Bert."], "zh", "zh-Hans"),
        (
            [
                "\u8bf8\u845b\u4eae\u5728\u9686\u4e2d\u3002",
                "\u5218\u5907\u6765\u4e86\u3002",
                "Anna met Bert.",
            ],
            None,
            "zh-Hans",
        ),
        (["\u8bf8\u845b\u4eae\u5728\u9686\u4e2d\u3002"], "en", "en"),
    ],
)
def test_the_report_is_in_the_language_of_most_documents(
    open_index, tmp_path, texts, language, expected
):
    rag = open_index()
    rag.add([SourceDocument(str(place), text) for place, text in enumerate(texts)])
    write_report(rag, tmp_path / "out.html", language=language)
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert f'<html lang="{expected}">' in text


def test_a_report_in_an_unknown_language_is_refused(rag, tmp_path):
    with pytest.raises(InvalidInputError, match="language='fr' must be None or one of en, zh"):
        write_report(rag, tmp_path / "out.html", language="fr")
    assert not (tmp_path / "out.html").exists()
