"""What a question asks of a text as a whole: an overview, its end, or neither.

A multinomial logistic regression over classes of words in English and Chinese (`WORDS`), their
pairs, and the number of words in no class, decides. What is learned for "report" holds for "memo".
`training/requests` trains its weights and measures it. It knows no phrases: "Boil the memo down for
me" is a request because of what its words stand for. A word in no class names something particular,
and nearly always means that the question does too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Literal

_ENGLISH: Mapping[str, str] = {
    "TEXT": (
        "article articles book books chapter chapters chat chats collection conversation"
        " conversations corpus correspondence dataset diary dialogue discussion"
        " discussions doc docs document documents email emails essay essays exchange"
        " exchanges feed file files folder guide handbook interview interviews journal"
        " journals lecture lectures letter letters log logs mail manual manuals material"
        " materials meeting meetings memo memos message messages minutes note notes novel"
        " novels page pages paper papers passage pdf pdfs piece play podcast post posts"
        " presentation publication record recording recordings records report reports"
        " review reviews script session sessions slides source sources speech study"
        " studies talk talks text texts thread threads transcript transcripts upload"
        " uploads video wiki work works writing writings"
    ),
    "STORY": ("storyline storylines story stories tale tales narrative plot saga film movie"),
    "PARTS": (
        "actions argument arguments area areas aspects claims conclusions concerns"
        " content contents decisions developments events facts findings highlights idea"
        " ideas insights issues items lessons matters message messages outcomes updates"
        " update point points questions recommendations results section sections subject"
        " subjects takeaway takeaways theme themes thesis thing things topic topics trends"
        " elements details news motif motifs stuff"
    ),
    "ACT": (
        "abridge boil brief catch condense digest distill outline recap recapitulate"
        " sketch compress extract pinpoint sum synthesise synthesize summarise summarised"
        " summarising summarize summarized summarizing update walk"
    ),
    "SUMMARY": (
        "abstract brief breakdown digest gist overview precis recap rundown summaries"
        " summary essence essentials picture upshot bottom crux recapitulation substance"
        " synopsis synthesis tldr highlights outline tl;dr tl dr nutshell short"
    ),
    "MAIN": (
        "big biggest broad central chief core critical crucial essential fundamental"
        " general high-level important interesting key larger main major most notable"
        " primary principal significant top underlying overarching"
    ),
    "ALL": (
        "all complete entire everything full general overall throughout total whole"
        " across every altogether"
    ),
    "COVER": (
        "addressed addresses appear appeared appears brought come comes contain contained"
        " contains cover covered covers deal deals discuss discussed discusses explained"
        " explore explored explores happen happened happening happens include included"
        " includes mention mentioned mentions present presented presents raised said say"
        " says talked talk talks touch touched touches treat treated treats written argue"
        " argues address"
    ),
    "END": (
        "conclude concluded concludes concluding conclusion end ended ending endings ends"
        " final finale finally finish finished finishes last outcome resolution resolve"
        " resolved result turn turned turns wrap wrapped close"
    ),
    "EVERYONE": ("characters everyone everybody people heroes hero protagonist"),
}
_FUNCTIONS = (
    "a about am an and any anything are as at back be been before bit briefly by can could"
    " did do does down essentially few fill find first for from get give given go going had"
    " has have here how i if in into is it its it's just kind know let let's like list little"
    " long look make many may me more much my need of off on one only or our out over overview"
    " paragraph please point provide quick quickly read reading really see sentence sentences"
    " several shall share short should show simple so some something sort sum tell than that"
    " that's the their them then there these they thing this those three through to two under"
    " understand up us want was we were what what's when where which while who why will with"
    " within without word words would write you your i'm i've don't didn't haven't five enough"
    " line lines bullet bullets bulleted form time hey hi thanks name identify describe"
    " explain summary sums s t re ve m d ll missed miss learn learned speed brief plain"
    " english gist not basically exactly"
)
_CHINESE: Mapping[str, str] = {
    "TEXT": (
        "文章 文档 文檔 文件 资料 資料 材料 全文 本文 文本 小说 小說 会议 會議 报告 報告"
        " 对话 對話 聊天记录 聊天記錄 聊天 消息 讯息 訊息 邮件 郵件 笔记 筆記 记录 記錄"
        " 论文 論文 信件 帖子 讨论 討論 谈话 談話 访谈 訪談 演讲 演講 纪要 紀要 书 書 全书"
        " 全書 章节 章節 日记 日記 文集 剧本 劇本 作品 课程 課程 视频 視頻 知识库 語料"
        " 语料 手册 手冊"
    ),
    "STORY": ("故事 情节 情節 剧情 劇情 电影 電影"),
    "PARTS": (
        "要点 要點 重点 重點 主题 主題 话题 話題 议题 議題 观点 觀點 结论 結論 发现 發現"
        " 内容 內容 亮点 亮點 主旨 方面 问题 問題 决定 決定 成果 结果 結果 论点 論點 思想"
        " 信息 事件 看点 收获 收穫 启示 啟示 大事 事项 事項 东西 東西"
    ),
    "ACT": (
        "总结 總結 概括 归纳 歸納 梳理 概述 小结 小結 提炼 提煉 简述 簡述 盘点 盤點 汇总"
        " 彙總 整理 回顾 回顧 综述 綜述 浓缩 濃縮 概要 介绍 介紹 复述 複述 列出 列举 列舉"
    ),
    "SUMMARY": ("摘要 大意 梗概 要旨 提纲 提綱 概览 概覽 概况 概況 总览 總覽 简介 簡介 中心思想"),
    "MAIN": ("主要 重要 关键 關鍵 核心 最重要 中心 基本"),
    "ALL": (
        "所有 全部 整个 整個 整体 整體 总体 總體 整篇 整本 整部 通篇 全篇 总的来说 總的來說 完整"
    ),
    "COVER": (
        "涉及 讨论 討論 提到 讲述 講述 谈到 談到 涵盖 涵蓋 包括 包含 探讨 探討 描述 讲 講"
        " 说 說 写 寫 谈 談 讲了 发生 發生 聊 提及 关于 關於 围绕 圍繞"
    ),
    "END": (
        "结局 結局 结尾 結尾 最后 最後 最终 最終 收场 收場 结束 結束 下场 下場 末尾 收尾"
        " 到头来 到頭來 后来 後來"
    ),
    "EVERYONE": ("一切 大家 所有人 人物 主角 主人公"),
}
_CHINESE_FUNCTIONS = (
    "的 了 是 这 這 那 个 個 些 什么 什麼 哪些 哪 吗 嗎 呢 请 請 帮 幫 我 给 給 一下 你 能"
    " 可以 有 都 里 裡 中 在 把 对 對 用 几 幾 句 句话 句話 一 三 五 百 字 以内 以內 我们 我們"
    " 看 到底 究竟 大概 大致 简单 簡單 简要 簡要 主要是 它 篇 本 部 份 次 段 场 場 怎么样"
    " 怎麼樣 怎样 怎樣 怎么 怎麼 如何 想 知道 快速 上 下 来 來 地 得 出 和 与 與 及 会 會 要"
    " 想要 需要 告诉 告訴 讲讲 说说 說說 啥 事 吧 呀 啊 一共 总共 總共 还 還 哪几 哪幾 多少 以"
    " 为 為 其 所 了解 没 沒 时间 時間 读 讀 内 內 点 點 人 就 成 共 这些 這些"
)


def _lookup() -> dict[str, str]:
    found = {word: word for word in (*_FUNCTIONS.split(), *_CHINESE_FUNCTIONS.split())}
    for classes in (_ENGLISH, _CHINESE):
        for name, words in classes.items():
            for word in words.split():
                known = found.get(word)
                # A word of several classes is a class of its own.
                found[word] = name if known in {None, word, name} else f"{known}+{name}"
    return found


WORDS: Mapping[str, str] = _lookup()
"""The class of each word that is no content; a function word is its own class."""

HAN_WORD = re.compile(
    "|".join(
        sorted((word for word in WORDS if "\u4e00" <= word[0] <= "\u9fff"), key=len, reverse=True)
    )
)
"""The words in Chinese characters, the longest first."""


RequestKind = Literal["overview", "ending", "other"]

KINDS: tuple[RequestKind, ...] = ("overview", "ending", "other")

CONTENT = "CONTENT"
"""Class of the words in no class."""

ENDING_CLASS = "END"
"""Class of the words for the end of something."""

_MAX_LENGTH = 300
"""Maximum number of characters of a question that is read: a request is short."""

_MAX_CONTENT = 3
"""Number of words in no class that are counted."""

_TOKEN = re.compile(
    r"tl;dr|[^\W\d_\u4e00-\u9fff]+(?:[-'’][^\W\d_]+)*|\d+|[\u4e00-\u9fff]+|[\"“”《》「」]"
)

_NEXT_QUESTION = re.compile(
    r"\?\s*(?=\w)|[,;]?\s+(?:and|but)(?:\s+then)?\s+"
    r"(?=(?:what|how|who|where|why|when|which|did|does|do|is|are|was|were)\b)"
    r"|？|，(?=[^，？]*(?:什么|什麼|谁|誰|哪|怎|如何|吗|嗎|呢))",
    re.IGNORECASE,
)
"""Where a question in a sentence begins after another one."""


def classes_of(question: str) -> Iterator[str]:
    """Yield the classes of the words of a question.

    >>> list(classes_of("Summarize the memo about Ann"))
    ['ACT', 'the', 'TEXT', 'about', 'CONTENT']
    """
    for match in _TOKEN.finditer(question.lower()):
        token = match.group().replace("’", "'")
        if not "\u4e00" <= token[0] <= "\u9fff":
            yield WORDS.get(token, WORDS.get(token.removesuffix("'s"), CONTENT))
            continue
        end = 0
        for word in HAN_WORD.finditer(token):
            yield from [CONTENT] * (word.start() > end)
            yield WORDS[word.group()]
            end = word.end()
        yield from [CONTENT] * (end < len(token))


def names_ending(question: str) -> bool:
    """Return whether a short question has a word for the end of something."""
    is_short = len(question) <= _MAX_LENGTH
    return is_short and any(one.startswith(ENDING_CLASS) for one in classes_of(question))


def features_of(question: str) -> dict[str, float]:
    """Return the features of a question and their values."""
    classes = list(classes_of(question))
    content = min(_MAX_CONTENT, sum(one == CONTENT for one in classes))
    known = [one for one in classes if one != CONTENT]
    pairs = pairwise(["^", *classes, "$"])
    features = dict.fromkeys(
        [*known, *(f"{a} {b}" for a, b in pairs if CONTENT not in {a, b})], 1.0
    )
    return {**features, CONTENT: float(content)} if content else features


@dataclass(frozen=True, eq=False)
class RequestModel:
    """The weights of a multinomial logistic regression.

    Attributes:
        weights: The weights of each feature, in the order of `KINDS`.
        bias: The weights of every question.
        least: Least probability of a kind other than `other`.
    """

    weights: Mapping[str, Sequence[float]]
    bias: Sequence[float]
    least: float

    def probabilities(self, question: str) -> list[float]:
        """Return the probability of each kind, in the order of `KINDS`."""
        overview, ending, other = self.bias
        for feature, value in features_of(question).items():
            if weights := self.weights.get(feature):
                overview += value * weights[0]
                ending += value * weights[1]
                other += value * weights[2]
        most = max(overview, ending, other)
        powers = [math.exp(one - most) for one in (overview, ending, other)]
        return [one / sum(powers) for one in powers]

    def kind_of(self, question: str) -> RequestKind:
        """Return what a question asks of a text as a whole.

        Several questions in one sentence ("How did it end, and what became of him?") ask for the
        end if one of them does.
        """
        if len(question) > _MAX_LENGTH:
            return "other"
        kind = self._kind_of_one(question)
        if kind == "other" and names_ending(question):
            parts = (part for part in _NEXT_QUESTION.split(question) if part.strip())
            return "ending" if "ending" in map(self._kind_of_one, parts) else kind
        return kind

    def _kind_of_one(self, question: str) -> RequestKind:
        values = self.probabilities(question)
        best = max(values)
        return KINDS[values.index(best)] if best >= self.least else "other"


@cache
def request_model() -> RequestModel:
    """Return the model of the package."""
    path = files("e2graphrag_integrations.retrieval") / "request_weights.json"
    return RequestModel(**json.loads(path.read_text(encoding="utf-8")))


def request_kind(question: str) -> RequestKind:
    """Return what a question asks of a text as a whole.

    >>> request_kind("tl;dr"), request_kind("How does it all end?"), request_kind("Who is Ann?")
    ('overview', 'ending', 'other')
    """
    return request_model().kind_of(question)
