"""Names that the first sentence of a Chinese text defines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.entities.chinese.definitions import chinese_defined_names
from e2graphrag_integrations.entities.subjects import defined_names, subject_candidates
from e2graphrag_integrations.types import DEFINITION


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("哈代空间是单位圆盘上的某类全纯函数。", ["哈代空间"]),
        ("底特律圣保罗座堂（Cathedral Church）是美国的主教座堂。", ["底特律圣保罗座堂"]),
        ("青少年机器人世界杯（RoboCup Junior，RCJ）是一个赛事。", ["青少年机器人世界杯", "RCJ"]),
        ("《芝加哥》（）是一部于2002年上映的美国电影。", ["芝加哥"]),
        ("赛里木湖，古称“净海”，位于中国新疆。", ["赛里木湖", "净海"]),
        ("纽波特，又译为新港，位于美国。", ["纽波特", "新港"]),
        (
            "史丹佛郡（英文简称：，又译士达福郡及施他佛郡），英国的郡。",
            ["史丹佛郡", "士达福郡", "施他佛郡"],
        ),
        ("于乐（），中国足球运动员，司职前锋。", ["于乐"]),
        ("臺灣大學（NTU），簡稱臺大，是臺灣的大學。", ["臺灣大學", "臺大", "NTU"]),
        ("曹操（155年－220年），字孟德，是东汉末年的政治家。", ["曹操"]),
        ("NGC 7318（也称为HCG 92）是一组星系。", ["NGC 7318", "HCG 92"]),
    ],
)
def test_definition_gives_the_names_of_its_subject(text, names):
    assert chinese_defined_names(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "他是一名演员。",
        "这是一个问题。",
        "昨天下了雨，路上没有人。",
        "因为天气不好，他不是很高兴。",
        "次日，曹操引军到了许都。",
        "1999年是兔年。",
        "Toto (東京) is a band from Tokyo.",
    ],
)
def test_other_sentences_define_nothing(text):
    assert chinese_defined_names(text) == []


def test_definitions_are_candidates_for_the_subject_of_a_chunk():
    [candidate] = subject_candidates("哈代空间是某类全纯函数。")
    assert (candidate.entity, candidate.label) == ("哈代空间", DEFINITION)


def test_english_texts_keep_their_candidates():
    text = "Rush is a Canadian rock band."
    assert [m.entity for m in subject_candidates(text)] == defined_names(text)


@given(st.text(alphabet="曹操是又名为（）()，、。“”《》A1 \n", max_size=60))
def test_any_text_is_accepted(text):
    assert all(name.strip() for name in chinese_defined_names(text))
