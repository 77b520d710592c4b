"""Words and forms by which a question refers to what was said before, in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from e2graphrag_integrations.text.words import is_common_word
from e2graphrag_integrations.types import Mention


@dataclass(frozen=True, slots=True)
class _References:
    """Words of one language, found in a lowercase question.

    The words of each language are looked for in all questions, because those of a script occur only
    in that script.

    Attributes:
        back: Words that refer to something mentioned before, or to another one of its kind.
        expletives: Phrases with such a word that refers to nothing, or to the noun before it.
        continuations: Words that continue or correct what was said, or ask for more of it.
        ellipses: Questions that consist of a question word, or compare without saying what.
    """

    back: re.Pattern[str]
    expletives: re.Pattern[str]
    continuations: re.Pattern[str]
    ellipses: re.Pattern[str]


_ENGLISH = _References(
    back=re.compile(
        r"\b(?:it|its|itself|they|them|their|theirs|he|him|his|she|her|hers|this|these|those"
        r"|there|other|others|another|same|such(?! as\b)|else|instead|then"
        r"|former|latter|that(?:'s)?(?=\W*$|[.,?!]|\W+(?:one|kind|type)\b))\b"
        # Not after a noun: "the film that was directed by ..."
        r"|(?:^\W*|\b(?:is|was|does|did|do|can|could|would|will|and|but|if|why|how|when|what) )"
        r"that\b"
        r"|\b(?:in|at|on|of|to|for|from|by|with|about|during|since|until|after|before) that"
        r"(?= [a-z])|\bthat (?:year|day|time|month|week|decade|century)\b"
        r"|\bat the time(?=\W*$)"
        r"|^\W*(?:what|how) about\b"
        r"|\bi (?:mean|meant)\b|\bi(?: a|['’])m (?:asking|talking|referring)\b"
        r"|\b(?:comes?|came|happen(?:s|ed)?|go|goes|went) (?:next|before|after)(?=\W*$)"
        r"|\b(?!no\b|which\b|any\b|each\b|every\b)[a-z-]{1,20} ones?(?=\W*$|[.,?!])"
    ),
    expletives=re.compile(
        # Not at the end: "how long does it take?" asks about something named before.
        r"(?:\bit (?:is|was|makes?|seems?|takes?(?! place| effect| off))"
        r"|\b(?:is|was|does|did|would|will) it (?:possible|make sense|take|true|necessary))\b"
        r"(?!\W*(?:$|[.?!]|please\b|then\b|now\b|overall\b|in total\b|altogether\b|exactly\b))"
        r"|\b(?:is|are|was|were|isn't|aren't) there\b|\bthere (?:is|are|was|were)\b"
        r"|\b(?:known|famous|noted|named) for (?:its|his|her|their)\b"
    ),
    continuations=re.compile(
        r"^\W*(?:and|but|or|also|plus|no|nope|yes|ok|okay|what if|in that case)\b"
        r"|\b(?:too|either|as well|afterwards?|anyway)(?=\W*$|[.,?!])"
        r"|^\W*(?:please |can you |could you )*(?:explain|elaborate|clarify|continue|go on)\b"
        r"|\b(?:an|another|some) examples?(?=\W*$|[.,?!])"
        r"|(?:^|[.!?])\W{0,3}any (?!of\b)|\bany(?=\W*$)"
        r"|\bmore(?: details?| information)?(?: please)?(?=\W*$|[.?!])"
    ),
    ellipses=re.compile(
        r"(?:^|[.!?,])\W{0,3}(?:(?:and|but|so) )?(?:why|how|when|where|who|whom|which|what)"
        r"(?: (?:not|so|often|long|much|many|far|soon|else|now|for|exactly|come))?\W*$"
        r"|^\W*(?:(?:and|so|but) )?how (?:long|much|many|often|far|soon)(?: time| money)?"
        r" (?:do|does|did|will|would|should|must|can) (?:i|you|we|one|people)"
        r"(?: (?:need|have to|want))?(?: to)?(?: (?:take|wait|pay|get|do|use|have|stay))?\W*$"
        r"|^\W*(?:(?:and|so|but) )?which is (?:the )?(?:more |most |less |least )?[a-z]+\W*$"
    ),
)
_CHINESE = _References(
    back=re.compile(
        "(?<![其吉])[他她它](?![人国國乡鄉])|(?:其他|其它)(?:的|人)?(?=[呢吗嗎？?]|$)|[这這]"
        "|那(?=[个個些位种種件次里裡时時家本部场場座天年人首款句段样樣边邊])"
        "|(?<![应應本活理不])[该該](?=[病国國城市省县縣校厂廠公书書片剧劇人地产產项項组組机機事系方文作条條法案店"
        "院镇鎮村区區岛島河山湖时時年月日届屆类類种種处處部队隊州])"
        "|(?<![尤及与與和以极極])其(?![实實次乐樂他它])|(?<![因如彼从從由特在])此(?![生次外起])"
        "|上述|前述|前者|后者|後者|对方|對方|双方|雙方|[两兩二]者|[上下前后後]一(?=[代个個款部任])|另一"
        "|[别別]的|同[年月日]|同时期|同時期"
    ),
    expletives=re.compile("(?!)"),
    continuations=re.compile(
        r"^\W*+(?:那(?=\S{1,12}呢)|那么|那麼|然后|然後|后来|後來|接着|接著|接下来|接下來|还有|還有|而且|但是|可是"
        r"|不过|不過|所以|另外|此外|继续|繼續|再(?=[说說讲講举舉推给給来來列详詳具])|(?:好的?|对|對|不是?|是的)(?=[，,。！!]))"
        "|(?:详细|詳細|具体|具體)[地点點]?(?:一[点點])?[说說讲講解介是展]|[举舉][个個几幾一]?[个個些]?例"
        "|[还還]有(?=[谁誰什哪别別其])|[这那這]?更多的?(?:信息|细节|細節|例子|内容|內容)?(?=\\W*$)"
    ),
    ellipses=re.compile(
        r"^\W*+(?:[那但可又]|需要|要|是|在|去|到|花)*"
        "(?:为什么|為什麼|为何|為何|怎么办|怎麼辦|怎么|怎麼|怎样|怎樣|如何|什么时候|什麼時候|何时|何時|哪里|哪裡|哪[儿兒]"
        "|[谁誰]|哪一?[年天位个個些种種]|多少[钱錢]?|多[久大长長远遠]|[几幾][个個次年天位]|结果|結果|原因|真的|例如|比如|什么意思"
        "|什麼意思)(?:如何|怎么样|怎麼樣|怎样|怎樣|是什么|是什麼|[呢吗嗎的了啊])*\\W*$"
        r"|^\W*+(?!\S*(?:什么|什麼|[谁誰哪怎几幾]|为何|為何|多少))\S{1,12}呢\W*$"
    ),
)
_LANGUAGES = (_ENGLISH, _CHINESE)

_BARE_WORD = r"[a-z\u00c0-\u052f]['’\-a-z\u00c0-\u052f]*"
_BARE_HAN = r"(?!\w*[是谁誰什甚哪怎几幾吗嗎呢的])[\u4e00-\u9fff]{1,4}"
_BARE = re.compile(rf"\W*(?:(?:the )?{_BARE_WORD}(?: {_BARE_WORD})?|{_BARE_HAN})\W*")
"""Questions of one or two words, such as "Opening hours?" and "价格？"."""

_QUOTED = re.compile("《[^《》]*》")

_ARTICLE = re.compile(r"\bthe(?P<between>(?: [\w'-]+)?) $", re.IGNORECASE)
"""A definite article in front of a noun, and the word between them. Longer phrases, such as "the
wash sale rule", identify what they refer to."""

_IDENTIFIED = re.compile(r"\b(?:only|first|last|next|same|own|\w+est|most|least)\b", re.IGNORECASE)
"""Words between an article and a noun with which the phrase can be complete."""

_MODIFIED = re.compile(
    r"(?:['’]s)? *(?:\b(?:of|in|for|to|on|at|by|from|with|about|between|among|against|under|over"
    r"|during|after|before|behind|that|which|who|whom|whose|where|when|i|you|we|called|named)\b"
    r"|[A-Z\d\"“'(])"
)
"""What follows a noun that the rest of the question identifies: an attribute or a name."""

_UNIQUE = frozenset(
    "world earth moon sun sky sea ocean internet web weather government president future past "
    "country state city public police law difference".split()
)
"""Nouns that need no antecedent."""

_POINTS = re.compile(r"\b(?:this|these|those)(?: same)? $", re.IGNORECASE)
"""What stands before a noun that points at one thing."""

_NEARBY = 40
"""Number of characters before and after a noun that are read."""


def back_reference(question: str, mentions: Sequence[Mention]) -> str:
    """Return the first words before any name that refer back, or an empty string."""
    text, before = readable(question), first_name(question, mentions)
    expletives = expletives_in(text)
    found = [
        match
        for language in _LANGUAGES
        for match in language.back.finditer(text)
        if match.start() < before
        and not any(first <= match.start() < end for first, end in expletives)
    ]
    return min(found, key=re.Match.start).group().strip() if found else ""


def open_reference(question: str, mentions: Sequence[Mention]) -> str:
    """Return words before any name that leave open what a question is about, or an empty string.

    These are continuations ("And ...", "Explain ..."), ellipses ("How often?", "Opening hours?"),
    and nouns with a definite article that nothing in the question identifies ("the fee").
    """
    text, before = readable(question), first_name(question, mentions)
    for language in _LANGUAGES:
        for pattern in (language.continuations, language.ellipses):
            match = pattern.search(text)
            # An ellipsis may consist of a name: "那曹操呢" asks the same about someone else.
            if match and match.start() <= before:
                return match.group().strip(" .,?!？！，。")
    if names_in(question, mentions):
        return ""  # a name identifies more than an article leaves open
    if _BARE.fullmatch(question.lower()):
        return text.strip(" .,?!？！，。")
    return next(_definite_nouns(question, mentions), "")


def is_topic(question: str) -> bool:
    """Return whether a question is one or two words without a question mark, as in a search box."""
    return _BARE.fullmatch(question.lower()) is not None and not {"?", "？"} & set(question)


def ellipsis_of(question: str) -> str:
    """Return a question without any content, such as "How long?", or an empty string."""
    text = readable(question)
    found = (language.ellipses.fullmatch(text) for language in _LANGUAGES)
    return next((match.group() for match in found if match), "")


def pointed_noun(question: str, mentions: Sequence[Mention]) -> str:
    """Return the lowercase lemma of the first noun after "this" or "these", or an empty string."""
    found = (
        one.entity.lower()
        for one in mentions
        if not one.named and _POINTS.search(question[max(0, one.start - _NEARBY) : one.start])
    )
    return next(found, "")


def expletives_in(text: str) -> list[tuple[int, int]]:
    """Return the spans of expletive phrases in a lowercase question, such as "is it possible"."""
    return [match.span() for language in _LANGUAGES for match in language.expletives.finditer(text)]


def readable(question: str) -> str:
    """Return a question in lowercase, with spaces instead of titles."""
    return _QUOTED.sub(lambda match: " " * len(match.group()), question.lower())


def first_name(question: str, mentions: Sequence[Mention]) -> int:
    """Return where the first name of a question starts, or its length if it has none."""
    return min((one.start for one in names_in(question, mentions)), default=len(question))


def names_in(question: str, mentions: Sequence[Mention]) -> list[Mention]:
    """Return the names in a question, but not the common word that begins one such as "Price?"."""
    names = [one for one in mentions if one.named]
    if not names or not _BARE.fullmatch(question.lower()):
        return names
    start = len(question) - len(question.lstrip())
    return [one for one in names if one.start > start or not is_common_word(one.entity.casefold())]


def _definite_nouns(question: str, mentions: Sequence[Mention]) -> Iterator[str]:
    """Yield the nouns with a definite article that the question does not identify."""
    starts = {one.start for one in mentions}
    for noun in mentions:
        rest = question[noun.end : noun.end + _NEARBY]
        if noun.end + len(rest) - len(rest.lstrip()) in starts:
            continue  # the first part of a compound
        article = _ARTICLE.search(question[max(0, noun.start - _NEARBY) : noun.start])
        if (
            article
            and noun.entity.lower() not in _UNIQUE
            and not _IDENTIFIED.search(article["between"])
            and not _MODIFIED.match(rest)
        ):
            yield f"{article.group()}{question[noun.start : noun.end]}"
