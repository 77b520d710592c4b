"""The languages of ISO 639-1: their codes, names and scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError

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
