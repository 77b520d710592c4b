"""Entity extraction for Chinese with the bundled model."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import ChineseEntityExtractor
from e2graphrag_integrations.entities.chinese.extractor import MAX_NAME
from e2graphrag_integrations.protocols import EntityExtractor
from strategies import quick, texts

EXTRACTOR = ChineseEntityExtractor()
LETTERS = "李明北京大学的在。，！《》·（）「」臺灣Ab1 \n\u3000\r\t😀ＩＢ\u0301\ud800"


def mentions(text):
    [sentences] = EXTRACTOR.extract([text])
    return [mention for sentence in sentences for mention in sentence]


def named(text):
    return {m.entity: m.label for m in mentions(text) if m.named}


def test_people_organizations_and_places_are_names():
    assert isinstance(EXTRACTOR, EntityExtractor)
    found = named("李明在北京大学读书，后来去了美国。")
    assert found == {"李明": "PERSON", "北京大学": "ORG", "美国": "LOC"}
    assert "巴拉克·奥巴马" in named("后来他去了美国，见到巴拉克•奥巴马。")


def test_common_nouns_have_at_least_two_characters():
    nouns = {m.entity for m in mentions("这家公司的产品和技术很好，人很多。") if not m.named}
    assert {"公司", "产品", "技术"} <= nouns
    assert all(len(noun) > 1 for noun in nouns)


def test_spans_refer_to_the_text_as_it_is():
    text = "  臺灣大學的教授😀去了ＩＢＭ公司，\n　　見到歐巴馬總統。"
    found = {text[m.start : m.end]: m.entity for m in mentions(text) if m.named}
    assert found["臺灣大學"] == "台湾大学"
    assert found["ＩＢＭ公司"] == "IBM公司"


@pytest.mark.parametrize(("traditional", "simplified"), [("諸葛亮", "诸葛亮"), ("乾隆", "乾隆")])
def test_traditional_and_simplified_names_are_one_entity(traditional, simplified):
    [name] = [m for m in mentions(f"皇帝{traditional}在南京住了三年。") if m.label == "PERSON"]
    assert name.entity == simplified
    assert (name.start, name.end) == (2, 2 + len(traditional))


def test_titles_in_book_marks_are_one_name():
    assert named("他讀了《李白詩選》和〈岳陽樓記〉。") == {"李白诗选": "NAME", "岳阳楼记": "NAME"}
    assert "书" * (MAX_NAME + 1) not in named(f"他读了《{'书' * (MAX_NAME + 1)}》。")


def test_quotation_marks_do_not_make_names():
    assert named("他说：「我明天不来。」『好的。』") == {}


def test_latin_names_inside_chinese_text_are_complete():
    found = named("他在深圳用iPhone 15 Pro和GPT-4写了一本书，然后去了New York City。")
    assert {"iPhone 15 Pro", "GPT-4", "New York City"} <= set(found)


def test_a_form_of_address_is_no_part_of_a_name():
    assert "奥巴马" in named("奥巴马总统昨天访问了上海。")


def test_a_name_that_was_found_once_is_found_again():
    text = "曹操率军到了荆州。曹操曰：今日之事，不可不慎。操大喜，曹操乃还。"
    assert sum(m.entity == "曹操" for m in mentions(text)) == text.count("曹操")


def test_mentions_are_grouped_by_sentence_and_line():
    [sentences] = EXTRACTOR.extract(["北京\n李明去了上海。王芳去了广州！"])
    assert [{m.entity for m in sentence if m.named} for sentence in sentences] == [
        {"北京"},
        {"李明", "上海"},
        {"王芳", "广州"},
    ]


def test_a_name_across_hard_wrapped_lines_is_one_name():
    text = "昨天在人民大会堂举行的会议上，国家主席习近\n平发表了重要讲话，强调了经济的意义。"
    [name] = [m for m in mentions(text) if m.label == "PERSON"]
    assert (name.entity, text[name.start : name.end]) == ("习近平", "习近\n平")


@quick
@given(
    st.text(
        alphabet="李明北京大学的在。，！《》·（）「」臺灣Ab1 \n\u3000\r\t😀ＩＢ\u0301\ud800",
        max_size=80,
    )
)
def test_any_text_has_exact_spans_and_short_names(text):
    [sentences] = EXTRACTOR.extract([text])
    previous = 0
    for mention in (m for sentence in sentences for m in sentence):
        assert previous <= mention.start < mention.end <= len(text)
        assert mention.entity
        assert len(mention.entity) <= MAX_NAME
        previous = mention.end


@quick
@given(texts())
def test_texts_in_any_script_are_accepted(text):
    [sentences] = EXTRACTOR.extract([text])
    mentions = [mention for sentence in sentences for mention in sentence]
    assert all(0 <= one.start < one.end <= len(text) and one.entity for one in mentions)


def test_one_text_alone_gives_the_same_mentions_as_in_a_batch():
    batch = ["李明去了北京。", "", "中" * 3000, "曹操、刘备与孙权。", " \n "]
    assert EXTRACTOR.extract(batch) == [EXTRACTOR.extract([text])[0] for text in batch]


def test_threads_and_pickled_copies_give_the_same_mentions():
    batch = [f"李明在第{i}中学读书，王芳在上海大学教书。" for i in range(20)]
    expected = EXTRACTOR.extract(batch)
    copy = pickle.loads(pickle.dumps(EXTRACTOR))  # noqa: S301 - our own bytes
    assert copy.fingerprint == EXTRACTOR.fingerprint
    with ThreadPoolExecutor(4) as pool:
        assert all(found == expected for found in pool.map(copy.extract, [batch] * 8))


def test_missing_opencc_names_the_extra_before_anything_is_extracted():
    code = (
        "import sys; sys.modules['opencc'] = None\n"
        "from e2graphrag_integrations import ChineseEntityExtractor\n"
        "from e2graphrag_integrations.errors import MissingDependencyError\n"
        "try:\n"
        "    ChineseEntityExtractor().extract(['x'])\n"
        "except MissingDependencyError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'e2graphrag-integrations[zh]'" in done.stdout


@pytest.mark.slow
def test_long_runs_of_latin_letters_take_linear_time():
    """With quadratic time this would take minutes, so no time is asserted."""
    assert EXTRACTOR.extract(["x" * 64_000, "张三在北京" + "0a" * 16_000])


def test_latin_words_of_two_lines_stay_two_words():
    lines = [
        "在加利福尼亚的车库里创办公司的人名叫Steve",
        "Jobs。" + "他后来离开了公司又回到公司工作多年。",
    ]
    found = named("\n".join(lines))
    assert "Steve Jobs" in found
    assert "SteveJobs" not in found
