"""The inflected forms of English words: plurals, third persons, past and -ing forms.

A search for "die" should find "died". The rules over-generate on purpose: a form is looked up in
the vocabulary of an index, where forms that are not words do not occur. A stemmer would need the
stem of every word in that vocabulary, with each new generation of the index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

_SHORTEST = 3
"""Minimum number of letters of a word with regular forms, and of its base."""

_CACHED = 4096
"""Number of words whose forms are remembered."""

_SIBILANTS = ("s", "x", "z", "ch", "sh", "o")
"""Endings after which the plural and the third person end in -es."""

_IRREGULAR = (
    "become became; begin began begun; bite bit bitten; bleed bled; blow blew blown; "
    "break broke broken; breed bred; bring brought; build built; burn burnt; buy bought; "
    "catch caught; choose chose chosen; creep crept; deal dealt; dig dug; draw drew drawn; "
    "dream dreamt; drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen; "
    "feed fed; feel felt; fight fought; find found; flee fled; fly flew flown; forbid forbade "
    "forbidden; forget forgot forgotten; forgive forgave forgiven; freeze froze frozen; get got "
    "gotten; give gave given; go went gone goes; grow grew grown; hang hung; hear heard; hide hid "
    "hidden; hold held; keep kept; kneel knelt; know knew known; lead led; leap leapt; learn "
    "learnt; leave left; lend lent; lie lay lain lying; light lit; lose lost; make made; mean "
    "meant; meet met; pay paid; ride rode ridden; ring rang rung; rise rose risen; run ran; say "
    "said; see saw seen; seek sought; sell sold; send sent; shake shook shaken; shine shone; shoot "
    "shot; show shown; shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat; sleep slept; "
    "slide slid; speak spoke spoken; spend spent; spin spun; spring sprang sprung; stand stood; "
    "steal stole stolen; stick stuck; sting stung; strike struck stricken; strive strove striven; "
    "swear swore sworn; sweep swept; swim swam swum; swing swung; take took taken; teach taught; "
    "tear tore torn; tell told; think thought; throw threw thrown; understand understood; wake "
    "woke woken; wear wore worn; weave wove woven; weep wept; win won; wind wound; withdraw "
    "withdrew withdrawn; write wrote written; die dead dying; "
    "child children; foot feet; goose geese; half halves; knife knives; leaf leaves; life lives; "
    "loaf loaves; louse lice; man men; mouse mice; ox oxen; person people; shelf shelves; thief "
    "thieves; tooth teeth; wife wives; wolf wolves; woman women; analysis analyses; crisis crises; "
    "criterion criteria; phenomenon phenomena; "
    "monday mon; tuesday tue tues; wednesday wed; thursday thu thur thurs; friday fri; "
    "january jan; february feb; march mar; april apr; june jun; july jul; august aug; "
    "september sep sept; october oct; november nov; december dec; "
    "street st str; saint st; road rd; avenue ave; boulevard blvd; apartment apt; building bldg; "
    "minute min mins; second sec secs; hour hr hrs; year yr yrs; "
    "doctor dr; professor prof; captain capt; lieutenant lt; mount mt; fort ft; "
    "department dept; government govt; university univ; company co; corporation corp; limited ltd; "
    "incorporated inc; approximately approx; maximum max; minimum min; telephone tel"
)
"""Words with irregular forms, and these forms, separated by semicolons; also abbreviations that are
no other frequent words."""

_VOWELS = frozenset("aeiou")
_UNDOUBLED = frozenset("aeiouhwxy")
"""Letters that are not doubled before -ed and -ing."""


@lru_cache(maxsize=_CACHED)
def inflections(word: str) -> tuple[str, ...]:
    """Return other forms of an English word in lower case, most likely ones first.

    >>> inflections("die"), inflections("studies")
    (('dead', 'dying', 'dies', 'died', 'diing'), ('study', 'studied', 'studying'))
    """
    if not (word.isascii() and word.isalpha()):
        return ()
    bases = _bases(word) if len(word) >= _SHORTEST else []
    irregular = [form for one in (word, *bases) for form in _irregular().get(one, [])]
    regular = [form for base in bases for form in (base, *_forms(base))]
    return tuple(form for form in dict.fromkeys([*irregular, *regular]) if form != word)


@lru_cache(maxsize=1)
def _irregular() -> Mapping[str, list[str]]:
    """Return the forms that belong to each form in the list, its base with the regular ones."""
    related: dict[str, list[str]] = {}
    for group in _IRREGULAR.split(";"):
        base, *others = group.split()
        for form in (base, *others):
            related.setdefault(form, []).extend([base, *others, *_forms(base)])
    return related


def _bases(word: str) -> list[str]:
    """Return the words of which a word may be a form; itself, if it does not look like a form."""
    bases = list(_bases_of_verb(word)) or list(_bases_of_plural(word))
    if word.endswith("ing"):  # a meeting, meetings
        bases.append(word)
    return [base for base in bases if len(base) >= _SHORTEST] or [word]


def _bases_of_verb(word: str) -> Iterator[str]:
    if word.endswith(("ies", "ied")) and len(word) > len("died"):
        yield word[:-3] + "y"
        return
    for ending in ("ed", "ing"):
        stem = word.removesuffix(ending)
        if stem == word or _VOWELS.isdisjoint(stem) or word.endswith("eed"):
            continue
        yield stem
        yield stem + "e"
        if _is_doubled(stem):
            yield stem[:-1]


def _bases_of_plural(word: str) -> Iterator[str]:
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        yield word[:-1]
        if word.endswith("es") and word[:-2].endswith(_SIBILANTS):
            yield word[:-2]


def _forms(base: str) -> list[str]:
    """Return the forms of a base."""
    is_after_consonant = len(base) > 1 and base[-2] not in _VOWELS
    if base.endswith("y") and is_after_consonant:
        return [base[:-1] + "ies", base[:-1] + "ied", base + "ing"]
    plural = base + ("es" if base.endswith(_SIBILANTS) else "s")
    if base.endswith("e"):
        return [plural, base + "d", base[:-1] + "ing"]
    stems = [base, base + base[-1]] if _may_double(base) else [base]
    return [plural, *(stem + ending for stem in stems for ending in ("ed", "ing"))]


def _may_double(base: str) -> bool:
    """Return whether a base ends in a single vowel and a consonant that may be doubled."""
    return (
        base[-1] not in _UNDOUBLED
        and base[-2] in _VOWELS
        and (len(base) < _SHORTEST or base[-3] not in _VOWELS)
    )


def _is_doubled(stem: str) -> bool:
    return len(stem) > _SHORTEST and stem[-1] == stem[-2] and stem[-1] not in _UNDOUBLED
