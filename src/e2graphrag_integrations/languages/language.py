"""The languages of ISO 639-1, the scripts of characters, and warnings about them."""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from e2graphrag_integrations._utils.display import printable
from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError

LATIN, HAN, KANA, HANGUL = "Latn", "Hani", "Kana", "Hang"
"""Codes of scripts (ISO 15924). Hiragana counts as kana, and bopomofo as Han."""

_BLOCKS = """
0041-005A Latn|0061-007A Latn|00AA Latn|00B5 Grek|00BA Latn|00C0-00D6 Latn|00D8-00F6 Latn
00F8-02B8 Latn|0370-0373 Grek|0376-03FF Grek|0400-052F Cyrl|0531-0587 Armn|0591-05F4 Hebr
0610-061A Arab|0620-065F Arab|066E-06FF Arab|0710-074F Syrc|0750-077F Arab|0780-07B1 Thaa
07CA-07F5 Nkoo|0800-082D Samr|0840-085B Mand|0860-086A Syrc|0870-08FF Arab|0900-0963 Deva
0970-097F Deva|0980-09E3 Beng|09F0-09FE Beng|0A01-0A5E Guru|0A70-0A75 Guru|0A81-0AE3 Gujr
0AF9-0AFF Gujr|0B01-0B63 Orya|0B70-0B77 Orya|0B82-0BD7 Taml|0C00-0C63 Telu|0C80-0CE3 Knda
0CF1-0CF3 Knda|0D00-0D63 Mlym|0D7A-0D7F Mlym|0D81-0DDF Sinh|0DF2-0DF3 Sinh|0E01-0E3A Thai
0E40-0E4E Thai|0E81-0EC6 Laoo|0EC8-0ECE Laoo|0EDC-0EDF Laoo|0F00-0F03 Tibt|0F18-0F19 Tibt
0F35-0F3A Tibt|0F3E-0FBC Tibt|1000-103F Mymr|1050-108F Mymr|109A-109D Mymr|10A0-10FF Geor
1100-11FF Hang|1200-135F Ethi|1380-138F Ethi|13A0-13FD Cher|1400-167F Cans|1780-17D3 Khmr
17D7 Khmr|17DC-17DD Khmr|1950-1974 Tale|1980-19C9 Talu|1A20-1A7C Lana
1820-18AA Mong|18B0-18F5 Cans|1C80-1C8A Cyrl|1C90-1CBF Geor|1CD0-1CFA Deva|1D00-1DBF Latn
1E00-1EFF Latn|1F00-1FFF Grek|2C60-2C7F Latn|2D00-2D2D Geor|2D80-2DDE Ethi|2DE0-2DFF Cyrl
3005-3007 Hani|3021-3029 Hani|3038-303B Hani|3041-3096 Kana|3099-309A Kana|309D-309F Kana
30A1-30FA Kana|30FC-30FF Kana|3105-312F Hani
3131-318E Hang|31A0-31BF Hani|31F0-31FF Kana|3400-4DBF Hani|4E00-9FFF Hani|A640-A69F Cyrl
A722-A7FF Latn|A8E0-A8FF Deva|A960-A97C Hang|A9E0-A9EF Mymr|A9FA-A9FE Mymr
AA60-AA76 Mymr|AA7A-AA7F Mymr|AB00-AB2E Ethi|AB30-AB6F Latn
AB70-ABBF Cher|AC00-D7FB Hang|F900-FAFF Hani|FB00-FB06 Latn|FB13-FB17 Armn|FB1D-FB4F Hebr
FB50-FDFF Arab|FE70-FEFC Arab|FF21-FF3A Latn|FF41-FF5A Latn|FF66-FF9F Kana|FFA0-FFDC Hang
10330-1034A Goth|1B000-1B16F Kana|1E900-1E943 Adlm|20000-3FFFF Hani
"""
"""Ranges of letters and of the signs that belong to them, with their scripts."""


def _ranges() -> list[tuple[int, int, str]]:
    """Return the first and the last code point of each range, and its script."""
    ranges = []
    for entry in _BLOCKS.replace("\n", "|").strip("|").split("|"):
        span, script = entry.split()
        first, _, last = span.partition("-")
        ranges.append((int(first, 16), int(last or first, 16), script))
    return ranges


def letters_of(*scripts: str) -> str:
    """Return the letters of scripts as ranges in a character class of a regular expression.

    >>> letters_of("Thai")
    '\u0e01-\u0e3a\u0e40-\u0e4e'
    """
    ranges = (one for one in _ranges() if one[2] in scripts)
    return "".join(f"{chr(first)}-{chr(last)}" for first, last, _ in ranges)


def _boundaries() -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the code points at which a range begins, and its script; "" between ranges."""
    starts, scripts = [0], [""]
    for first, last, script in _ranges():
        starts += [first, last + 1]
        scripts += [script, ""]
    # Adjacent ranges leave an empty range between them.
    kept = [row for row, (a, b) in enumerate(pairwise([*starts, 1 << 21])) if a < b]
    return tuple(starts[row] for row in kept), tuple(scripts[row] for row in kept)


_STARTS, _SCRIPTS = _boundaries()


def script_of(character: str) -> str:
    """Return the script of a character (ISO 15924), or "" if it is not a letter.

    >>> script_of("a"), script_of("漢"), script_of("ひ"), script_of("?")
    ('Latn', 'Hani', 'Kana', '')
    """
    return _SCRIPTS[bisect_right(_STARTS, ord(character)) - 1]


def count_scripts(text: str) -> Mapping[str, int]:
    """Return the number of letters of each script in a text, most frequent first.

    >>> count_scripts("OpenAI 的模型 GPT-4")
    {'Latn': 9, 'Hani': 3}
    """
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        counts[script_of(character)] += count
    del counts[""]
    return dict(counts.most_common())


UNKNOWN = "und"
"""Code of an unknown language (ISO 639-2)."""

ENGLISH, CHINESE = "en", "zh"

AUTO = "auto"
"""Value of the argument `language` for detecting the language of each document."""

_MAX_DESCRIBED = 6
"""Maximum number of languages that a message names."""

METADATA_KEYS = ("language", "lang")
"""Metadata keys under which documents of frameworks name their language."""

_TABLE = """
aa aar Latn Afar|ab abk Cyrl Abkhazian|ae ave Latn Avestan|af afr Latn Afrikaans|ak aka Latn Akan
am amh Ethi Amharic|an arg Latn Aragonese|ar ara Arab Arabic|as asm Beng Assamese
av ava Cyrl Avaric|ay aym Latn Aymara|az aze Latn,Cyrl,Arab Azerbaijani|ba bak Cyrl Bashkir
be bel Cyrl Belarusian|bg bul Cyrl Bulgarian|bi bis Latn Bislama|bm bam Latn Bambara
bn ben Beng Bengali|bo bod,tib Tibt Tibetan|br bre Latn Breton|bs bos Latn,Cyrl Bosnian
ca cat Latn Catalan|ce che Cyrl Chechen|ch cha Latn Chamorro|co cos Latn Corsican
cr cre Cans,Latn Cree|cs ces,cze Latn Czech|cu chu Cyrl Church Slavic|cv chv Cyrl Chuvash
cy cym,wel Latn Welsh|da dan Latn Danish|de deu,ger Latn German|dv div Thaa Divehi
dz dzo Tibt Dzongkha|ee ewe Latn Ewe|el ell,gre Grek Greek|en eng Latn English
eo epo Latn Esperanto|es spa Latn Spanish|et est Latn Estonian|eu eus,baq Latn Basque
fa fas,per Arab Persian|ff ful Latn,Adlm Fulah|fi fin Latn Finnish|fj fij Latn Fijian
fo fao Latn Faroese|fr fra,fre Latn French|fy fry Latn Western Frisian|ga gle Latn Irish
gd gla Latn Scottish Gaelic|gl glg Latn Galician|gn grn Latn Guarani|gu guj Gujr Gujarati
gv glv Latn Manx|ha hau Latn Hausa|he heb Hebr Hebrew|hi hin Deva Hindi|ho hmo Latn Hiri Motu
hr hrv Latn Croatian|ht hat Latn Haitian|hu hun Latn Hungarian|hy hye,arm Armn Armenian
hz her Latn Herero|ia ina Latn Interlingua|id ind Latn Indonesian|ie ile Latn Interlingue
ig ibo Latn Igbo|ii iii Yiii Sichuan Yi|ik ipk Latn Inupiaq|io ido Latn Ido
is isl,ice Latn Icelandic|it ita Latn Italian|iu iku Cans,Latn Inuktitut|ja jpn Kana,Hani Japanese
jv jav Latn Javanese|ka kat,geo Geor Georgian|kg kon Latn Kongo|ki kik Latn Kikuyu
kj kua Latn Kuanyama|kk kaz Cyrl,Latn,Arab Kazakh|kl kal Latn Kalaallisut|km khm Khmr Khmer
kn kan Knda Kannada|ko kor Hang,Hani Korean|kr kau Latn Kanuri|ks kas Arab,Deva Kashmiri
ku kur Latn,Arab Kurdish|kv kom Cyrl Komi|kw cor Latn Cornish|ky kir Cyrl Kyrgyz|la lat Latn Latin
lb ltz Latn Luxembourgish|lg lug Latn Ganda|li lim Latn Limburgish|ln lin Latn Lingala
lo lao Laoo Lao|lt lit Latn Lithuanian|lu lub Latn Luba-Katanga|lv lav Latn Latvian
mg mlg Latn Malagasy|mh mah Latn Marshallese|mi mri,mao Latn Maori|mk mkd,mac Cyrl Macedonian
ml mal Mlym Malayalam|mn mon Cyrl,Mong Mongolian|mr mar Deva Marathi|ms msa,may Latn,Arab Malay
mt mlt Latn Maltese|my mya,bur Mymr Burmese|na nau Latn Nauru|nb nob Latn Norwegian Bokmål
nd nde Latn North Ndebele|ne nep Deva Nepali|ng ndo Latn Ndonga|nl nld,dut Latn Dutch
nn nno Latn Norwegian Nynorsk|no nor Latn Norwegian|nr nbl Latn South Ndebele|nv nav Latn Navajo
ny nya Latn Chichewa|oc oci Latn Occitan|oj oji Cans,Latn Ojibwa|om orm Latn Oromo|or ori Orya Odia
os oss Cyrl Ossetian|pa pan Guru,Arab Punjabi|pi pli Deva,Latn Pali|pl pol Latn Polish
ps pus Arab Pashto|pt por Latn Portuguese|qu que Latn Quechua|rm roh Latn Romansh|rn run Latn Rundi
ro ron,rum Latn Romanian|ru rus Cyrl Russian|rw kin Latn Kinyarwanda|sa san Deva Sanskrit
sc srd Latn Sardinian|sd snd Arab,Deva Sindhi|se sme Latn Northern Sami|sg sag Latn Sango
si sin Sinh Sinhala|sk slk,slo Latn Slovak|sl slv Latn Slovenian|sm smo Latn Samoan
sn sna Latn Shona|so som Latn Somali|sq sqi,alb Latn Albanian|sr srp Cyrl,Latn Serbian
ss ssw Latn Swati|st sot Latn Southern Sotho|su sun Latn Sundanese|sv swe Latn Swedish
sw swa Latn Swahili|ta tam Taml Tamil|te tel Telu Telugu|tg tgk Cyrl Tajik|th tha Thai Thai
ti tir Ethi Tigrinya|tk tuk Latn,Cyrl Turkmen|tl tgl,fil Latn Tagalog|tn tsn Latn Tswana
to ton Latn Tonga|tr tur Latn Turkish|ts tso Latn Tsonga|tt tat Cyrl,Latn Tatar|tw twi Latn Twi
ty tah Latn Tahitian|ug uig Arab,Cyrl,Latn Uyghur|uk ukr Cyrl Ukrainian|ur urd Arab Urdu
uz uzb Latn,Cyrl Uzbek|ve ven Latn Venda|vi vie Latn Vietnamese|vo vol Latn Volapük
wa wln Latn Walloon|wo wol Latn Wolof|xh xho Latn Xhosa|yi yid Hebr Yiddish|yo yor Latn Yoruba
za zha Latn Zhuang|zh zho,chi,cmn,yue,wuu,lzh Hani Chinese|zu zul Latn Zulu
"""
"""Code, codes of three letters (ISO 639-2 and 639-3), scripts and name of each language."""

_CODE = re.compile(r"\s*([A-Za-z]{2,3})(?:[-_][A-Za-z0-9@.]+)*\s*")


@dataclass(frozen=True, slots=True)
class Language:
    """A language.

    Attributes:
        code: Code of two letters (ISO 639-1).
        name: English name.
        scripts: The scripts that it is written in (ISO 15924), the most frequent one first.
        long_codes: Codes of three letters.
    """

    code: str
    name: str
    scripts: tuple[str, ...]
    long_codes: tuple[str, ...]


def _languages() -> dict[str, Language]:
    found = {}
    for entry in _TABLE.replace("\n", "|").strip("|").split("|"):
        code, long_codes, scripts, name = entry.split(maxsplit=3)
        found[code] = Language(code, name, tuple(scripts.split(",")), tuple(long_codes.split(",")))
    return found


LANGUAGES: Mapping[str, Language] = MappingProxyType(_languages())
"""All languages with a code of two letters, by code."""

_SHORT_CODES: Mapping[str, str] = MappingProxyType(
    {long: code for code, one in LANGUAGES.items() for long in one.long_codes}
)


def find_code(value: object) -> str | None:
    """Return the code of a language that a code or a locale names; None if it names none.

    Accepts codes of two and three letters in any case, with a script or a region.

    >>> find_code("zh-Hant-TW"), find_code("en_US.UTF-8"), find_code("DEU")
    ('zh', 'en', 'de')
    >>> find_code("No language found."), find_code("xx"), find_code(None)
    (None, None, None)
    """
    match = _CODE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    code = match[1].lower()
    code = _SHORT_CODES.get(code, code)
    return code if code in LANGUAGES or code == UNKNOWN else None


def metadata_language(records: Iterable[Mapping[str, object]]) -> str | None:
    """Return the language that the metadata of the parts of a document name.

    Loaders of web pages and of documents write it under `language` or `lang`, not always with a
    valid code. None if the parts name no language, or different ones.

    >>> metadata_language([{"language": "zh-CN"}]), metadata_language([{"lang": "xx"}])
    ('zh', None)
    """
    found = {
        next((code for key in METADATA_KEYS if (code := find_code(record.get(key)))), None)
        for record in records
    }
    return found.pop() if len(found) == 1 else None


def checked_code(value: object, argument: str = "language") -> str:
    """Return the code of a language that the user named.

    Raises:
        InvalidInputError: If the value names no language.
    """
    code = find_code(value)
    if code is None:
        raise InvalidInputError(
            f"{argument}={short_repr(value)} is not the code of a language: pass a code of ISO "
            f"639-1, such as 'en' or 'zh'"
        )
    return code


def describe_language(code: str) -> str:
    """Return the name and the code of a language.

    >>> describe_language("zh"), describe_language("und")
    ('Chinese (zh)', 'an unknown language (und)')
    """
    name = LANGUAGES[code].name if code in LANGUAGES else "an unknown language"
    return f"{name} ({code})"


def describe_languages(counts: Mapping[str, int]) -> str:
    """Return the names of languages with their numbers of documents, the most frequent first.

    >>> describe_languages({"de": 1, "fr": 3})
    'French (3 documents) and German (1)'
    """
    ordered = sorted(counts, key=lambda code: (-counts[code], code))
    named = [
        f"{describe_language(code).rpartition(' ')[0]} ({counts[code]})"
        for code in ordered[:_MAX_DESCRIBED]
    ]
    first = counts[ordered[0]]
    named[0] = named[0].replace(f"({first})", f"({first} document{'s' if first != 1 else ''})")
    if len(ordered) > _MAX_DESCRIBED:
        named.append(f"{len(ordered) - _MAX_DESCRIBED} more languages")
    *others, last = named
    return f"{', '.join(others)} and {last}" if others else last


def scripts_of_language(code: str) -> tuple[str, ...]:
    """Return the scripts of a language; () if it is unknown."""
    return LANGUAGES[code].scripts if code in LANGUAGES else ()


logger = logging.getLogger(__name__)


class LanguageNotices:
    """Logs warnings that a model does not fit a language, once per model and language.

    All components of one open index share it, so that a warning does not appear with each write.

    Args:
        where: Name of the index.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._logged: set[tuple[str, str]] = set()

    def unwarned(self, kind: str, languages: Iterable[str]) -> list[str]:
        """Return the languages about which no warning of a kind was logged."""
        return [one for one in languages if (kind, one) not in self._logged]

    def warn(self, kind: str, languages: Iterable[str], message: str) -> None:
        """Log a warning about an index, unless one of this kind was logged for the languages.

        Args:
            kind: What does not fit, such as "extractor" or "embedder".
            languages: Codes of the languages.
            message: What is wrong, and what to install or pass.
        """
        unwarned = self.unwarned(kind, languages)
        if unwarned:
            self._logged.update((kind, one) for one in unwarned)
            logger.warning("%s: %s", printable(self._where), printable(message))
