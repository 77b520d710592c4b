"""Measures and amounts of money: `5 km`, `14 percent`, `$3.2M`, `minus five degrees`.

A number and its unit say together what neither says alone, and both have several spellings. All
have one form: the number in digits and a short name of the unit, such as `5km` or `3200000usd`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import NamedTuple

from e2graphrag_integrations.text.numbers.english import SPELLED, one_of, value_of_spelled
from e2graphrag_integrations.text.numbers.han import HAN_DIGITS, value_of_han

_UNITS = """
mm: mm, millimeter, millimeters, millimetre, millimetres
cm: cm, centimeter, centimeters, centimetre, centimetres
m: m, meter, meters, metre, metres, mètres, metros
km: km, kms, kilometer, kilometers, kilometre, kilometres
ft: ft, foot, feet
inch: inch, inches
yd: yd, yds, yard, yards
mi: mi, mile, miles
m2: m2, m², sqm, square meter, square meters, square metre, square metres
km2: km2, km², square kilometer, square kilometers, square kilometre, square kilometres
ft2: ft2, ft², sqft, sq ft, square foot, square feet
m3: m3, m³, cubic meter, cubic meters, cubic metre, cubic metres
ha: ha, hectare, hectares
acre: acre, acres
ml: ml, milliliter, milliliters, millilitre, millilitres
l: l, liter, liters, litre, litres
gal: gallon, gallons
mg: mg, milligram, milligrams
g: g, gram, grams, gramme, grammes, gramm, gramos
kg: kg, kgs, kilo, kilos, kilogram, kilograms, kilogramme, kilogrammes
t: t, ton, tons, tonne, tonnes
oz: oz, ounce, ounces
lb: lb, lbs, pound, pounds
gbp: £, gbp, pound, pounds
usd: $, us$, usd, dollar, dollars
eur: €, eur, euro, euros
jpy: ¥, jpy, yen
chf: chf, franc, francs
inr: ₹, inr, rupee, rupees
pct: %, percent, per cent, pct, prozent, pour cent, por ciento
c: °c, ° c, degrees celsius, degree celsius, degrees centigrade
f: °f, ° f, degrees fahrenheit, degree fahrenheit
deg: °, degree, degrees, °c, ° c, °f, ° f, degrees celsius, degrees centigrade, degrees fahrenheit
kw: kw, kilowatt, kilowatts
mw: mw, megawatt, megawatts
gw: gw, gigawatt, gigawatts
kwh: kwh, kilowatt-hours, kilowatt hours
v: volt, volts
hz: hz, hertz
khz: khz, kilohertz
mhz: mhz, megahertz
ghz: ghz, gigahertz
kb: kb, kilobyte, kilobytes
mb: mb, megabyte, megabytes
gb: gb, gigabyte, gigabytes
tb: tb, terabyte, terabytes
mph: mph, miles per hour
kmh: km/h, kph, kmh, kilometers per hour, kilometres per hour, km per hour
"""
"""The name of each unit, and its spellings in lower case. A spelling may mean two units."""


_HAN_UNITS = """
mm: 毫米
cm: 厘米, 公分
m: 米, 公尺
km: 公里, 千米
m2: 平方米, 平米
km2: 平方公里
m3: 立方米
ha: 公顷
ml: 毫升
l: 升
g: 克
kg: 公斤, 千克
t: 吨, 噸
c: 摄氏度, ℃, 攝氏度
deg: 摄氏度, ℃, 攝氏度, 度
min: 分钟, 分鐘, 分間, 분
h: 小时, 小時, 钟头, 時間, 시간
d: 天, 日間
w: 周, 个星期, 星期, 週間
mon: 个月, 個月, か月, 개월
pct: %, ％, パーセント, 퍼센트
cny: 元, 元人民币, 块钱, 人民币
usd: 美元, ドル, 달러
eur: 欧元, ユーロ, 유로
gbp: 英镑
jpy: 日元, 円
krw: 韩元, 원
"""
"""The same for Chinese, Japanese and Korean."""


def _read_units(lines: str) -> Mapping[str, tuple[str, ...]]:
    units: dict[str, tuple[str, ...]] = {}
    for line in lines.strip().splitlines():
        name, _, spellings = line.partition(": ")
        for spelling in spellings.split(", "):
            units[spelling] = (*units.get(spelling, ()), name)
    return MappingProxyType(units)


_NAMES = _read_units(_UNITS)
"""The names of the units that a spelling may mean."""

_HAN_NAMES = _read_units(_HAN_UNITS)

_SCALES: Mapping[str, int] = MappingProxyType(
    {
        word: 10**zeros
        for zeros, words in (
            (2, "hundred"),
            (3, "thousand k"),
            (6, "million millions m mn mio mln millionen millones milhões milioni"),
            (9, "billion billions b bn mrd milliarde milliarden milliard milliards miliardi"),
            (12, "trillion tn"),
        )
        for word in words.split()
    }
)
_ONLY_MONEY = frozenset({"m", "b"})
"""Scales that are units of other things, unless a currency comes before the number."""

_CURRENCY = re.compile(r"(?:[$£€¥₹]|(?<![a-z])(?:us\$|usd|eur|gbp|chf|inr|jpy))[ \u00a0]?\Z")
_LONGEST_CURRENCY = 4
_MINUS = re.compile(r"(?:(?<!\w)[-−–]|\bminus )\Z")
_LONGEST_MINUS = 7
_DEGREES = frozenset({"c", "f", "deg"})
"""Units of which a number may be negative."""

_MONEY = frozenset({"gbp", "usd", "eur", "jpy", "chf", "inr"})
_AFTER_SPACE = re.compile(r"(?<=\d )[1-9]\d\d(?!\d)")
_PACKED = frozenset({"g", "ml"})
"""Units of packs, of which a number may stand in front, as in "2 500 g packs"."""

_SPACE = "[ \u00a0\u202f-]?"
_UNIT = rf"(?P<unit>{one_of(*map(re.escape, _NAMES))})(?!\w)"
_LONG_NAMES = tuple(
    one for one in _NAMES if one.replace(" ", "").isalpha() and len(one) >= len("foot")
)
_LONG_UNIT = one_of(*_LONG_NAMES)

_SPACED = r"(?:[ \u00a0\u202f]\d{3}(?!\d))+(?:[.,]\d+)?"
"""What follows the first digits of a number with spaces between thousands, as in French."""

# Begins with one class of characters, as `_HINT` in `codes` does.
_IN_DIGITS = re.compile(
    rf"\d(?<![0-9a-z_.,:/]\d)(?:(?<!0)\d{{0,2}}{_SPACED}|[\d.,'’]*\d)?"
    rf"(?:{_SPACE}(?P<scale>{one_of(*_SCALES)})\b\.?)?(?:{_SPACE}{_UNIT})?"
)
_NUMBER = re.compile(rf"[1-9]\d{{0,2}}{_SPACED}|[\d.,'’]+")
_LARGE = re.compile(r"(?<![\w.,/-])(?P<number>\d{1,4}(?:[.,]\d{1,3})?)(?P<scale>[MB])(?![\w-])")
_IN_WORDS = re.compile(rf"\b(?P<number>{SPELLED})[ -](?P<unit>{_LONG_UNIT})\b")
_UNIT_IN_WORDS = re.compile(rf"[ -](?<=[a-z].)(?:{_LONG_UNIT})\b")

UNIT_WORDS = frozenset(one.split()[0] for one in _LONG_NAMES)
"""The words with which a unit begins that may follow a number in words."""

_BELOW_ZERO = re.compile("(?:零下|(?<!\\w)[-−])\\Z")
_SIDE = re.compile(r"\d+(?:[.,]\d+)?")
_SIZE = re.compile(rf"\d(?<![\w.,]\d)(?:\d*(?:[.,]\d+)?)(?:(?: ?[x×] ?| by ){_SIDE.pattern})+")
_GROUPED = re.compile(
    r"\d{1,3}(?:[,'’]\d{3})+(?:\.\d+)?|\d{1,3}(?:(?:\.\d{3})+,\d+|(?:\.\d{3}){2,})"
)
_DOTTED = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+(?![\d.])")
_DECIMAL = re.compile(r"\d+(?:[.,]\d+)?")
_MAX_DIGITS = 15


_HAN = f"[{HAN_DIGITS}万萬亿億]{{1,14}}(?:[点點][〇零一二三四五六七八九]{{1,6}})?"
_IN_HAN = re.compile(
    rf"""
      (?:\d(?<![0-9a-z_.,:/]\d)[\d.,]*\s?(?P<scale>[百千]??[万萬]??[亿億]??)|(?P<han>{_HAN}))
      \s?(?P<unit>{one_of(*_HAN_NAMES)})
    | (?P<part>百分之)(?:(?P<digits>\d+(?:\.\d+)?)|(?P<percent>{_HAN}))
    """,
    re.VERBOSE,
)
_HAN_HINT = re.compile(
    f"[{''.join(sorted({one[0] for one in _HAN_NAMES if one != '%'} | {'百'}))}]"
)


class Measure(NamedTuple):
    """A number with a unit or a scale in a text.

    Attributes:
        start, end: Its characters, half-open.
        forms: Its forms with each unit that it may have; the number alone, if it has none.
        number: The number in digits.
        is_scaled: Whether digits alone do not say the number, as in `3.2 million`.
    """

    start: int
    end: int
    forms: tuple[str, ...]
    number: str
    is_scaled: bool


def find_measures(lowered: str) -> Iterator[Measure]:
    """Yield the numbers with a unit, a currency or a scale in a text in lower case.

    >>> [one.forms for one in find_measures("5 kilometers, $3.2m, 14 %, 250k")]
    [('5km',), ('3200000usd',), ('14pct',), ('250000',)]
    >>> list(find_measures("3 in 4 of 2024, rooms 5 and 6"))
    []
    """
    for match in _IN_DIGITS.finditer(lowered):
        if (found := _measure_in_digits(match)) is not None:
            yield found


def find_unit_prices(lowered: str) -> Iterator[Measure]:
    """Yield the prices that `find_measures` joins with a number in front of them, in order.

    "2 350 €" may be 2,350 euros, or the quantity and the price in a line of an invoice.

    >>> [one.forms for one in find_unit_prices("bolts 2 350,00 € 700,00 €, 12 500 km")]
    [('350eur',)]
    """
    for place in _AFTER_SPACE.finditer(lowered):
        match = _IN_DIGITS.match(lowered, place.start())
        if match is None or match["unit"] is None:
            continue
        found = _measure_in_digits(match)
        if found is not None and _MONEY.issuperset(_NAMES[match["unit"]]):
            yield found


def find_large_numbers(text: str) -> Iterator[Measure]:
    """Yield the numbers with a capital letter for a million or a billion in a text, in order.

    Such a number needs no currency.

    >>> [one.forms for one in find_large_numbers("1.5M users, 2B downloads, 1.5 m of rope")]
    [('1500000',), ('2000000000',)]
    """
    for match in _LARGE.finditer(text):
        value = _value(_NUMBER.match(match["number"]))
        if value is not None:
            scaled = value * _SCALES[match["scale"].lower()]
            yield _measure(*match.span(), scaled, (), is_scaled=True)


def find_spelled_measures(lowered: str) -> Iterator[Measure]:
    """Yield the numbers in words with a unit in a text in lower case.

    >>> [one.forms for one in find_spelled_measures("five kilometers, half a million dollars")]
    [('5km',), ('500000usd',)]
    """
    if _UNIT_IN_WORDS.search(lowered) is None:  # the other pattern is slow
        return
    for match in _IN_WORDS.finditer(lowered):
        value = value_of_spelled(match["number"])
        if value is not None:
            span = match.span()
            yield _measure(*span, Decimal(value), _NAMES[match["unit"]], is_scaled=True)


def find_sizes(lowered: str) -> Iterator[Measure]:
    """Yield the sizes in a text in lower case, without their units.

    >>> [one.forms for one in find_sizes("20 x 30 cm, 20 by 30, 2x4x8")]
    [('20x30',), ('20x30',), ('2x4x8',)]
    """
    for match in _SIZE.finditer(lowered):
        form = "x".join(_SIDE.findall(match.group()))
        yield Measure(*match.span(), (form,), form, is_scaled=False)


def find_han_measures(text: str) -> Iterator[Measure]:
    """Yield the numbers with a unit in Chinese, Japanese or Korean in a text.

    >>> [one.forms for one in find_han_measures("四十二公里, 3.2万元, 百分之十二, 零下5℃")]
    [('42km',), ('32000cny',), ('12pct',), ('-5c', '-5deg')]
    """
    if text.isascii() or _HAN_HINT.search(text) is None:
        return
    for match in _IN_HAN.finditer(text):
        written = match["han"] or match["percent"]
        value = _value_of_han(written) if written else _value_of_digits(match)
        if value is None:
            continue
        names = ("pct",) if match["part"] else _HAN_NAMES[match["unit"]]
        if _BELOW_ZERO.search(text, max(0, match.start() - 2), match.start()):
            value = -value if "deg" in names else value
        found = _measure(*match.span(), value, names, is_scaled=bool(written or match["scale"]))
        if match["han"] and match["han"].endswith("千") and not {"g", "m"}.isdisjoint(names):
            thousands = f"{(value / 1000).normalize():f}k{names[0]}"  # 三千克 is 3 kg, too
            found = found._replace(forms=(*found.forms, thousands))
        yield found


def _value_of_han(number: str) -> Decimal:
    whole, _, decimals = number.replace("點", "点").partition("点")
    return Decimal(f"{value_of_han(whole)}.{''.join(str(value_of_han(one)) for one in decimals)}")


def _value_of_digits(match: re.Match[str]) -> Decimal | None:
    value = _value(_NUMBER.match(match["digits"] or match.group()))
    if value is None:
        return None
    for one in match["scale"] or "":
        value *= value_of_han(f"一{one}")
    return value


def _measure_in_digits(match: re.Match[str]) -> Measure | None:
    text, start = match.string, match.start()
    money = _CURRENCY.search(text, max(0, start - _LONGEST_CURRENCY), start)
    scale, unit = match["scale"], match["unit"]
    if scale in _ONLY_MONEY and money is None:
        scale, unit = None, None if unit else scale
    names = _NAMES.get(unit or "", ())
    if money is not None:
        names = _NAMES[money.group().strip()]
    elif not (scale or names):
        return None
    number = _NUMBER.match(text, start)
    if number is not None and " " in number.group() and not _PACKED.isdisjoint(names):
        start += number.group().rindex(" ") + 1
        number = _NUMBER.match(text, start)
    value = _value(number, is_euro=names == ("eur",) and not scale)
    if value is None:
        return None
    value *= _SCALES[scale] if scale else 1
    minus = _MINUS.search(text, max(0, start - _LONGEST_MINUS), start)
    if minus is not None and _DEGREES.isdisjoint(names):
        minus = None
    before = money or minus
    return _measure(
        start if before is None else before.start(),
        match.end(),
        value if minus is None else -value,
        names,
        is_scaled=scale is not None,
    )


def _measure(
    start: int, end: int, value: Decimal, names: tuple[str, ...], *, is_scaled: bool
) -> Measure:
    number = f"{value.normalize():f}"
    forms = tuple(number + name for name in names) or (number,)
    return Measure(start, end, forms, number, is_scaled)


def _value(number: re.Match[str] | None, *, is_euro: bool = False) -> Decimal | None:
    """Return the value of a number with a point or a comma; None if it is none.

    Amounts in euros have no three decimals after a point, so 1.250 euros are 1,250.
    """
    written = "" if number is None else "".join(number.group().rstrip(".,'’").split())
    if len(written) > _MAX_DIGITS:
        return None
    if _GROUPED.fullmatch(written) or (is_euro and _DOTTED.fullmatch(written)):
        marks = "." if _DOTTED.match(written) else ",'’"
        return Decimal(re.sub(f"[{marks}]", "", written).replace(",", "."))
    if _DECIMAL.fullmatch(written):
        return Decimal(written.replace(",", "."))
    return None
