"""What an index holds, and the questions that its own names suggest."""

from __future__ import annotations

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.views.overview import MAX_QUESTIONS, overview
from fakes import NamesAndNouns


def test_an_empty_index_has_no_questions(open_index, serve):
    held = serve(open_index()).get("/overview").json()
    assert held == {"documents": 0, "chunks": 0, "names": 0, "languages": {}, "questions": []}


def test_questions_name_what_few_chunks_have_as_the_text_writes_it(open_index, serve):
    rag = open_index()
    common = [SourceDocument(f"{n}", f"Anna slept on day {n}.") for n in range(8)]
    names = ("Olga", "Pavel", "Quentin", "Rosa", "Stefan", "Tilda", "Ulrich")
    rag.add([*common, *(SourceDocument(one, f"{one} slept.") for one in names)])
    rag.add(SourceDocument("number", "Hundred slept."))
    rag.add(SourceDocument("pair", "Viktor met Wanda."))
    client = serve(rag)
    held = client.get("/overview").json()
    stats = rag.stats()
    assert (held["documents"], held["chunks"]) == (stats.documents, stats.chunks) == (17, 17)
    assert held["names"] == client.get("/entities?names_only=true").json()["total"]
    assert held["languages"] == {"en": 17}
    questions = held["questions"]
    assert len(questions) == MAX_QUESTIONS == len(set(questions))
    assert "How are Viktor and Wanda connected?" in questions
    single = [one for one in questions if one.startswith("What does the text say about ")]
    assert len(single) == 4
    assert all(one.removesuffix("?").split()[-1] in names for one in single)
    assert not any("Anna" in one for one in questions)  # eight chunks have this name
    assert not any("Hundred" in one for one in questions)  # a common word
    assert any("hundred" in one.name for one in rag.entities())
    for one in questions:
        assert rag.retrieve(one).nodes


def test_a_scope_gets_its_own_questions(open_index):
    rag = open_index()
    rag.add(
        [
            SourceDocument("a", "Viktor met Wanda.", metadata={"tenant": "a"}),
            SourceDocument("b", "Viktor met Xenia.", metadata={"tenant": "b"}),
        ]
    )
    assert overview(rag.scoped({"tenant": "a"})).questions == (
        "How are Viktor and Wanda connected?",
    )


def test_common_nouns_are_no_names(open_index, serve):
    rag = open_index(extractor=NamesAndNouns())
    rag.add(SourceDocument("one", "Anna had time, a thing and a harbour."))
    assert rag.stats().entities == 4
    assert serve(rag).get("/overview").json()["names"] == 1


def test_an_index_that_is_mostly_chinese_has_chinese_questions(open_index):
    rag = open_index()
    rag.add(SourceDocument("a", "Viktor 和 Wanda 在奥斯陆见面，他们谈了很久。"))
    rag.add(SourceDocument("b", "后来 Xenia 回到了奥斯陆，她把信交给了老人。"))
    rag.add(SourceDocument("c", "Nobody knew when the letter had been written."))
    assert overview(rag).questions == ("文中是怎么讲Xenia的？", "Viktor和Wanda有什么关系？")
