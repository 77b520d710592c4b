"""The names that the first sentence of a Chinese text defines, as in "X (...) 是 ...".

The counterpart of `entities/subjects.py`. Courtesy names ("字孟德") are not names of the subject:
the rules never join them to a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from e2graphrag_integrations.text.letters import HAN_LETTERS

_REACH = 300
"""Number of characters that are searched for a definition."""

_MAX_NAME = 20
"""Maximum length of a name in Chinese characters."""

_MAX_GAP = 80
"""Maximum distance between a name that is followed by a comma, and the verb."""

_MIN_HAN = 0.3
"""Minimum share of Chinese characters among the letters of the sentence."""

_PAIRS = {"（": "）", "(": ")", "[": "]", "［": "］"}
_QUOTES = '“”「」『』"《》〈〉'
_NAME = re.compile(
    rf"《(?P<title>[^《》\n]{{1,{2 * _MAX_NAME}}})》|(?P<name>[\w·•‧・\-－—–&'’./ ]+?)"
    rf"(?=\s*(?:[（(，,：:“「『]|是|为|為|系|係|乃|指|即|[位产產成发發始建][^，]{{0,2}}[于於]|[于於在]\d|一词|一詞"
    rf"|[又亦也简簡][名称稱译譯]|$))"
)
_COPULA = re.compile(
    r"(?<![不就还還也都只于於但可正算总總才若凡乃却卻仍更又像])(?:是(?!否|不是|非)|(?<![成作认認稱称因名译譯改被视視定分命以化])[为為]"
    r"|(?<![关關])[系係](?=[一中由位])|乃(?=[一中])|指(?:的是)?|即|位[于於])"
)
_ALSO_NAMED = re.compile(
    r"(?:(?:又|亦|也|或)(?:被)?(?:名|叫|称|稱|译|譯|写|寫)|(?:别|別|旧|舊|古|俗|简|簡|全|原|本|合|通)(?:名|称|稱)"
    r"|(?:曾用|英文|中文|正式)名|(?:艺|藝|笔|筆|网|網|绰|綽|昵|暱|外)(?:名|号|號|称|稱)|人称|人稱)"
    r"(?:[为為是叫作])*[:：]?\s*"
)
_ALSO_NAME = re.compile(
    rf"[{_QUOTES}]?([\w·•‧・\-&'’. ]{{2,{_MAX_NAME}}}?)[{_QUOTES}]?(?=[，,、。；;）)/及或和与與]|$)"
)
_ENUMERATED = re.compile(r"[、/及或和与與]")
_ACRONYM = re.compile(r"(?:^|[，,；;：:、])\s*([A-Z][A-Z0-9&.\-]{1,9})\s*(?=$|[，,；;、])")
_NOT_NAMES = re.compile(
    r"[他她它牠我你您这這那此其该該本各每某另]|[一两兩二三四五六七八九十百千\d]+(?:年|月|日|个|個|名|位|次|种|種)"
    r"|(?:[于於](?=\d)|在|由|当|當|从|從|自|对|對|根据|根據|如果|因为|因為|虽然|雖然|但|而|所谓|所謂|今天|现在|現在)"
)
_PARTICLE = re.compile("[的了在著着过過吗嗎呢吧]")
_HAS_HAN = re.compile(f"[{HAN_LETTERS}]")


def chinese_defined_names(text: str) -> list[str]:
    """Return the names of the subject that the first sentence of a text defines, main name first.

    >>> chinese_defined_names("中国科学院(CAS), 简称中科院, 是中国的科研机构。")
    ['中国科学院', '中科院', 'CAS']
    >>> chinese_defined_names("他是一名演员。")
    []
    """
    sentence = re.split(r"[。！？\n]", text.lstrip()[:_REACH], maxsplit=1)[0]
    outside, inside = _split_parentheses(sentence)
    found = _NAME.match(outside)
    if found is None or not _is_chinese(sentence):
        return []
    name = (found["title"] or found["name"]).strip()
    rest = outside[found.end() :]
    verb = _COPULA.search(rest)
    before = rest if verb is None else rest[: verb.start()]
    has_parenthesis = bool(inside) and sentence[found.end() :].lstrip()[:1] in _PAIRS
    is_defined = verb is not None and (
        not before.strip() or (before.lstrip()[:1] in {"，", ","} and len(before) <= _MAX_GAP)
    )
    if not (is_defined or has_parenthesis) or not _is_name(name, is_title=bool(found["title"])):
        return []
    reach = found.end() + len(before) if is_defined else found.end()
    names = dict.fromkeys([name])
    for clause in (rest, *(own for start, own in inside if start <= reach)):
        names.update(dict.fromkeys(_other_names(clause)))
    for start, clause in inside:
        if start <= reach:
            names.update(dict.fromkeys(_ACRONYM.findall(clause)))
    return list(names)


def _is_chinese(sentence: str) -> bool:
    han = len(_HAS_HAN.findall(sentence))
    return han >= _MIN_HAN * sum(character.isalpha() for character in sentence) and han > 0


def _is_name(name: str, *, is_title: bool) -> bool:
    letters = sum(character.isalpha() for character in name)
    if letters < 2 or len(name) > _MAX_NAME * (1 if _HAS_HAN.search(name) else 3):  # noqa: PLR2004
        return False
    return is_title or not (_NOT_NAMES.match(name) or _PARTICLE.search(name))


def _other_names(clause: str) -> Iterator[str]:
    for phrase in _ALSO_NAMED.finditer(clause):
        at = phrase.end()
        while (name := _ALSO_NAME.match(clause, at)) is not None:
            own = name[1].strip()
            if _is_name(own, is_title=False):
                yield own
            at = name.end()
            if at >= len(clause) or not _ENUMERATED.match(clause[at]):
                break
            at += 1


def _split_parentheses(text: str) -> tuple[str, list[tuple[int, str]]]:
    """Return the text outside parentheses, and each text inside with its place outside."""
    outside = ""
    inside: list[tuple[int, str]] = []
    closing, start = "", 0
    for place, character in enumerate(text):
        if not closing and character in _PAIRS:
            outside += text[start:place]
            closing, start = _PAIRS[character], place + 1
        elif closing and character in {closing, ")", "）"}:
            inside.append((len(outside), text[start:place]))
            closing, start = "", place + 1
    return outside if closing else outside + text[start:], inside
