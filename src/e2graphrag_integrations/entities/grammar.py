"""Facts about languages that the rules for names use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from e2graphrag_integrations.entities.normalize import ADDRESSES
from e2graphrag_integrations.languages.detection import listed_stop_words

_JOINERS = frozenset(
    "de la del du des d della dei degli delle di da do dos das van von der den ter ten af av bin "
    "ibn bint ben of the &".split()
)
_GERMAN_JOINERS = frozenset("von van der den de am an of the &".split())
_ADDRESSES = ADDRESSES | frozenset(
    "herr frau fräulein monsieur madame mademoiselle señor señora señorita sr sra srta signor "
    "signora senhor senhora fru pan pani g-n г-н г-жа".split()
)
_DETERMINERS = frozenset(
    """
    der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner keines
    mein meine meinen meinem meiner meines dein deine deinen deinem deiner deines sein seine seinen
    seinem seiner seines ihr ihre ihren ihrem ihrer ihres unser unsere unseren unserem unserer
    unseres euer eure euren eurem eurer eures dieser diese dieses diesen diesem jener jene jenes
    jenen jenem jeder jede jedes jeden jedem welcher welche welches welchen welchem im am zum zur
    beim vom ins ans aufs alle allen aller viele vielen vieler einige einigen mehrere mehreren
    manche manchen beide beiden zwei drei vier fünf sechs sieben acht neun zehn
    """.split()
)
_NOUN_ENDINGS = tuple(
    "ung ungen heit heiten keit keiten schaft schaften tion tionen tät täten nis nisse nissen "
    "ismus chen lein ling linge lingen tum tümer ment mente".split()
)
_GERMAN_CALENDAR = frozenset(
    "januar jänner februar märz april mai juni juli august september oktober november dezember "
    "montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag".split()
)
_CAPITALIZED_NOUNS = frozenset({"de", "lb", "nds", "gsw"})
_SYLLABLES = frozenset({"vi"})
_ELISIONS = frozenset({"fr", "it", "ca", "oc"})
_APOSTROPHES = frozenset({"tr", "az", "tk", "crh"})


@dataclass(frozen=True)
class Grammar:
    """Facts about one language.

    Attributes:
        stop_words: Function words in lowercase.
        joiners: Lowercase words that join capitalized words into one name.
        addresses: Forms of address, which are not part of a name.
        calendar: Capitalized words for months and days.
        determiners: Words that precede a common noun, where all nouns are capitalized.
        noun_endings: Endings of common nouns, where all nouns are capitalized.
        nouns_are_capitalized: Whether all nouns are capitalized, as in German.
        writes_syllables: Whether spaces separate syllables instead of words, as in Vietnamese.
        elides: Whether an article or preposition can be joined to a name, as in "L'Angleterre".
        apostrophe_before_suffix: Whether an apostrophe precedes suffixes, as in Turkish.
    """

    stop_words: frozenset[str] = frozenset()
    joiners: frozenset[str] = _JOINERS
    addresses: frozenset[str] = _ADDRESSES
    calendar: frozenset[str] = frozenset()
    determiners: frozenset[str] = frozenset()
    noun_endings: tuple[str, ...] = ()
    nouns_are_capitalized: bool = False
    writes_syllables: bool = False
    elides: bool = False
    apostrophe_before_suffix: bool = False


@cache
def grammar_of(language: str) -> Grammar:
    """Return the facts about a language, by its ISO 639 code; "und" if it is unknown."""
    listed = listed_stop_words("nb" if language == "no" else language)
    stop_words = frozenset(word.casefold() for word in listed)
    if language in _CAPITALIZED_NOUNS:
        return Grammar(
            stop_words,
            _GERMAN_JOINERS,
            calendar=_GERMAN_CALENDAR,
            determiners=_DETERMINERS,
            noun_endings=_NOUN_ENDINGS,
            nouns_are_capitalized=True,
        )
    return Grammar(
        stop_words,
        writes_syllables=language in _SYLLABLES,
        elides=language in _ELISIONS,
        apostrophe_before_suffix=language in _APOSTROPHES,
    )
