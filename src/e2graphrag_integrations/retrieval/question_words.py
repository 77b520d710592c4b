"""Words of questions that say nothing about what is asked for, by language.

The words of each language are applied to all questions: those of a script occur only in that
script, and a question may contain several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from e2graphrag_integrations.languages.detection import stop_words
from e2graphrag_integrations.languages.language import CHINESE, ENGLISH
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.text.numbers.english import with_digits
from e2graphrag_integrations.text.spellings import with_joined_words
from e2graphrag_integrations.text.words import (
    FUNCTION_WORDS,
    has_unspaced,
    is_function_word,
    terms_of,
)
from e2graphrag_integrations.types import Mention


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """Words of one language, as regular expressions for a lowercase question.

    Attributes:
        functions: Question words and particles. They are not searched for. English lists only
            those with another meaning of their own, as in "How long is it?"; the others are common,
            so they count little. In Chinese, the pairs of characters of such a word and its
            neighbors would be rare by accident.
        requests: Words that ask for an overview of a text, or that say nothing about its content.
        fillers: Words that do not identify the topic of a question. In a small index, they can be
            rare.
        overviews: Words that ask for an overview, of a text or of a topic.
        contents: Questions for the content of a text ("What is ... about?").
        aspects: Words for what only a text as a whole has, such as its themes or its style.
    """

    functions: str
    requests: str
    fillers: str
    overviews: str
    contents: str
    aspects: str


_ENGLISH = QuestionWords(
    functions=r"(?<![\"'])\b[Hh]ow (?:many|much|often|(?:far|long|soon)(?= (?:a|after|ago|an|are"
    r"|before|can|could|did|do|does|had|has|have|is|may|might|must|of|shall|should|was|were|will|would)"
    r"\b))(?![\w-])",
    requests=r"\b(?:a|about|all|am|an|and|any|are|articles?|as|at|be|been|being|books?|brief|briefly"
    r"|but|by|can|chapter|collection|contents?|conversation|corpus|could|describe|did|discuss"
    r"|discussed|discussions?|do|documents?|does|entire|entirety|essay|explain|files?|find|for|from"
    r"|general|generally|gist|give|has|have|highlights?|how|i|ideas?|in|into|is|issues?|its?|key"
    r"|list|main|major|me|meeting|mention|mentioned|novel|of|on|or|outline|overall|overview|page"
    r"|paper|please|points?|provide|question|report|said|say|says|should|show|story|subjects?"
    r"|summaries|summarise|summarize|summary|takeaways?|tell|text|that|the|their|them|themes?|there"
    r"|these|they|this|those|to|topics?|transcript|us|was|we|were|what|which|who|whole|why|will"
    r"|with|you|your)\b",
    fillers=r"\b(?:a|about|am|an|and|any|are|as|at|be|been|being|but|by|can|could|did|do|does|for"
    r"|from|had|has|have|he|her|hers|him|his|how|i|if|in|is|it|its|many|me|more|much|my"
    r"|no|not|of|often|on|or|our|please|shall|she|should|so|some|that|the|their|theirs"
    r"|them|then|there|these|they|this|those|to|us|was|we|were|what|when|where|which|who"
    r"|whom|whose|why|will|with|would|yes|you|your)\b",
    overviews=r"\bsummar\w+|\boverview|\bsynopsis|\bgist\b|\boutline|\btakeaways?\b",
    contents=r"^\W*what(?:'s| is| was|’s)\b.*\babout\W*$",
    aspects=r"\b(?:themes?|plot|synopsis|genre|morals?|mood|tone|narrat\w+|authors?|writers?|novel"
    r"|symbol(?:s|ism|ize\w*)?|portray\w*|depict\w*|as a whole|in general|overall|throughout"
    r"|lessons?|writing style|style of|(?:key|main|major|central|principal)"
    r" (?:characters?|ideas?|points?|messages?|arguments?|events?)"
    r"|(?:entire|whole) (?:books?|story|text|document|work|meeting|conversation|discussion|corpus)"
    r"|roles? \w+(?: \w+){0,8} plays?|role does .{0,100} play)\b",
)
_CHINESE = QuestionWords(
    functions="请问|請問|为什么|為什麼|为何|為何|什么时候|什麼時候|什么|什麼|怎么样|怎麼樣|怎么|怎麼"
    "|怎样|怎樣|如何|哪一年|哪一|哪些|哪个|哪個|哪里|哪裡|哪儿|哪位|哪|谁|誰|多少|几个|幾個|是否"
    "|有没有|有沒有|是不是|[吗嗎呢]|(?<!目)的(?![士确確])|了(?!解|不起)"
    "|(?<![但可于於总總])是(?!非)|(?<![存现現正实實内內潜潛])在(?![线線职職])",
    requests="总结|總結|小结|小結|概括|概述|概要|概况|概況|归纳|歸納|梳理|介绍|介紹|描述|简述|簡述"
    "|简要|簡要|简单|簡單|大致|大概|大体|大體|大意|梗概|摘要|提纲|提綱|主要|重要|关键|關鍵|核心|中心思想"
    "|内容|內容|情节|情節|剧情|劇情|主题|主題|主旨|要点|要點|重点|重點|亮点|亮點|观点|觀點|话题|話題"
    "|议题|議題|问题|問題|方面|结论|結論|讲述|講述|讲解|講解|讨论|討論|涉及|提到|全文|全书|全書|本文"
    "|文章|文档|文檔|文件|资料|資料|材料|小说|小說|会议|會議|报告|報告|对话|對話|聊天记录|聊天記錄|故事"
    "|事情|列出|列举|列舉|帮我|幫我|给我|給我|给出|給出|告诉|告訴|一下|一段|几句|幾句|里面|裡面|其中"
    "|所有|全部|总体|總體|整体|整體|整个|整個|哪些|都有|还有|還有|包括|以及|[请請你您我们們这這那该該此它"
    "本篇部书書讲講说說谈談写寫用把对對有和与與及都里裡中一个個话話]",
    fillers="后来|後來|然后|然後|接着|接著|接下来|接下來|结果|結果|原因|情况|情況|具体|具體|详细|詳細|例子|例如"
    "|比如|意思|别的|別的|其他|其它|另外|其实|其實|需要|可以|能够|能夠|应该|應該|如果|因为|因為|所以|但是"
    "|[他她它们們们这這那该該其此些也还還又再就才会會能要去来來得地着著过過吧啊呀哦]",
    overviews="总结|總結|小结|小結|概括|概述|概要|概况|概況|归纳|歸納|梳理|摘要|提纲|提綱|大意|梗概",
    contents="(?:讲|講|说|說|写|寫)(?:的|了)?(?:是)?什[么麼]",
    aspects="主题|主題|主旨|中心思想|情节|情節|风格|風格|手法|描写|描寫|塑造|刻画|刻畫|象征|象徵|反映|寓意|基调"
    "|基調|作者|叙述|敘述|结构|結構|人物形象|主要人物|主要角色|全书|全書|全文|整部|整本|整体|整體|总体|總體",
)
_LANGUAGES = (_ENGLISH, _CHINESE)

_QUOTED = r"(?P<quoted>《[^《》]*》|“[^“”]*”|「[^「」]*」|『[^『』]*』)"
_FUNCTIONS = re.compile("|".join([_QUOTED, *(one.functions for one in _LANGUAGES)]))
_REQUESTS = re.compile("|".join(one.requests for one in _LANGUAGES), re.IGNORECASE)
_OVERVIEWS = re.compile("|".join(one.overviews for one in _LANGUAGES), re.IGNORECASE)
_CONTENTS = re.compile("|".join(one.contents for one in _LANGUAGES), re.IGNORECASE)
_ASPECTS = re.compile("|".join(one.aspects for one in _LANGUAGES), re.IGNORECASE)
_WORD = re.compile(r"\w+")
_CHINESE_AND = re.compile(r"(?<=[\u4e00-\u9fff]{2})[和与與跟及或](?=[\u4e00-\u9fff]{2})")
"""Joins two words in Chinese, which have no spaces."""

_FILLERS = re.compile("|".join(one.fillers for one in _LANGUAGES), re.IGNORECASE)


def search_terms(question: str) -> list[str]:
    """Return the terms of a question without those of question words and particles.

    Quotes and titles are kept complete. If nothing else remains, all terms are returned. The parts
    of a name with underscores follow: a text, or the path of a file, may have them as words.

    >>> search_terms("曹操是谁"), search_terms("Who is he?")
    (['曹', '操', '曹操'], ['who', 'is', 'he'])
    >>> search_terms("Summarize minutes_may.txt")
    ['summarize', 'minutes_may', 'txt', 'minutes', 'may']
    """
    question = with_digits(with_joined_words(question))
    terms = terms_of(_without_functions(question)) or terms_of(question)
    return [*terms, *(part for one in terms if "_" in one for part in one.split("_") if part)]


def topic_terms(question: str) -> list[str]:
    """Return the terms that say what a question is about, if it is not an entire text.

    >>> topic_terms("Summarize the main points"), topic_terms("总结一下赤壁的主要内容")
    ([], ['赤', '壁', '赤壁'])
    """
    return terms_of(_without_functions(_REQUESTS.sub(" ", question)))


def specific_terms(question: str) -> list[str]:
    """Return the terms of a question that identify its topic, with pairs only of ideographs.

    >>> specific_terms("When did she die?"), specific_terms("他后来怎么样了")
    (['die'], [])
    """
    terms = terms_of(_without_functions(_FILLERS.sub(" ", question)))
    return [term for term in terms if len(term) > 1 or not has_unspaced(term)]


def words_to_mark(question: str, languages: Iterable[str]) -> str:
    """Return a question, as written, without words that say nothing about a text.

    Args:
        question: The question.
        languages: Codes of the languages of the texts. Only their function words are left out:
            German "war" is a word of its own in English.

    >>> words_to_mark("Where did the Eloi live?", ["en"]).split()
    ['Eloi', 'live?']
    >>> words_to_mark("关羽和张飞是什么关系", ["zh"]).split()
    ['关羽', '张飞', '关系']
    """
    languages = list(languages)
    others = [stop_words(code) for code in languages if code not in {ENGLISH, CHINESE}]

    def kept(match: re.Match[str]) -> str:
        word = match.group().casefold()
        return " " if is_function_word(word) or any(word in own for own in others) else match[0]

    rest = _without_functions(_FILLERS.sub(" ", question))
    if CHINESE in languages:
        rest = _CHINESE_AND.sub(" ", rest)
    return _WORD.sub(kept, rest)


def asks_for_overview(question: str) -> bool:
    """Return whether a question asks for an overview of a text or a topic.

    >>> asks_for_overview("Summarize the meeting"), asks_for_overview("Who is she?")
    (True, False)
    """
    return _OVERVIEWS.search(question) is not None


def asks_for_content(question: str) -> bool:
    """Return whether a question asks what a text is about.

    >>> asks_for_content("What is Emma about?"), asks_for_content("What is it?")
    (True, False)
    """
    return _CONTENTS.search(question) is not None


def asks_for_aspect(question: str) -> bool:
    """Return whether a question asks for what only a text as a whole has, such as its themes.

    >>> asks_for_aspect("What are the main themes?"), asks_for_aspect("Where is the map?")
    (True, False)
    """
    return _ASPECTS.search(question) is not None


def _without_functions(question: str) -> str:
    return _FUNCTIONS.sub(lambda match: match["quoted"] or " ", question)


_PART = re.compile(r"\S+")

_MIN_COMMON = 0.2
"""Minimum share of function words in an English question. A Chinese one may quote a title."""

_LETTERS = frozenset("aist")
"""Letters that are words, or parts of `what's` and `don't`. Others may be names: "Professor C"."""

_MIN_SHARE = 0.1
"""If no function word occurs in this share of the texts, the index is not in English. In English,
"the" is in more than half of all sentences."""


def is_foreign(terms: Sequence[str], bm25: BM25Index) -> bool:
    """Return whether a question is in English, and the index is in another language.

    Args:
        terms: The words of the question.
        bm25: The index.
    """
    if is_english(bm25):
        return False
    common = sum(term in FUNCTION_WORDS for term in terms)
    return common >= _MIN_COMMON * len(terms) > 0


def content_words(terms: Sequence[str], bm25: BM25Index) -> list[str]:
    """Return the words of a question, without function words if the index is not in English."""
    if FUNCTION_WORDS.isdisjoint(terms) or is_english(bm25):
        return list(terms)
    return [term for term in terms if not is_function_word(term)]


def function_words(terms: Iterable[str], languages: Sequence[str]) -> frozenset[str]:
    """Return the words that have no content of their own.

    Args:
        terms: Words of a question.
        languages: Codes of the languages in which it may be. Those of English always count.
    """
    lists = [stop_words(code) for code in languages if code not in {ENGLISH, CHINESE}]
    return frozenset(
        one
        for one in terms
        if one in FUNCTION_WORDS or one in _LETTERS or any(one in words for words in lists)
    )


def without_function_words(
    mentions: Iterable[Mention], bm25: Callable[[], BM25Index]
) -> tuple[Mention, ...]:
    """Return mentions without function words at their ends, if the index is not in English.

    An extractor for another language takes many English words for names.

    Args:
        mentions: Mentions in a question.
        bm25: Returns the index. It is called only if a mention has a function word.
    """
    given = tuple(mentions)
    stripped = tuple(_stripped(mention) for mention in given)
    if stripped == given or is_english(bm25()):
        return given
    return tuple(mention for mention in stripped if mention is not None)


def _stripped(mention: Mention) -> Mention | None:
    """Return a mention without function words at its ends; None if nothing remains."""
    words = [(one.group(), *one.span()) for one in _PART.finditer(mention.entity)]
    kept = [one for one in words if one[0].lower() not in FUNCTION_WORDS]
    if not words or (kept and kept[0] == words[0] and kept[-1] == words[-1]):
        return mention
    if not kept:
        return None
    first, last = kept[0][1], kept[-1][2]
    entity, start, end, label = mention
    if len(entity) == end - start:  # otherwise, the entity is not written as in the question
        start, end = start + first, start + last
    return Mention(entity[first:last], start, end, label)


def is_english(bm25: BM25Index) -> bool:
    """Return whether function words of English are frequent in the index."""
    return bm25.has_frequent(FUNCTION_WORDS, _MIN_SHARE)
