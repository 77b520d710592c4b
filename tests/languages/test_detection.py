"""The language of a text is found conservatively: English unless it is clearly another."""

from __future__ import annotations

import subprocess
import sys

import pytest

from e2graphrag_integrations.languages.detection import (
    detect_language,
    detect_languages,
    main_script,
)

SENTENCES = {
    "zh": "她打开窗户的时候，雪已经化了，孩子们又在屋后的草地上玩耍。",
    "ja": "彼女が窓を開けると、雪はもう溶けていて、子供たちは野原で遊んでいた。",
    "ko": "그녀가 창문을 열었을 때 눈은 이미 녹아 있었고 아이들은 들판에서 놀고 있었다.",
    "th": "เมื่อเธอเปิดหน้าต่าง ฝนก็หยุดตกแล้ว และเด็ก ๆ กำลังเล่นกันอยู่ที่สนามหลังบ้าน",
    "el": "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας και βρίσκεται στην Αττική.",
    "he": "ירושלים היא עיר הבירה של מדינת ישראל והיא אחת הערים העתיקות בעולם.",
    "ru": "Когда она открыла окно, снег уже растаял, и дети снова играли на лугу.",
    "uk": "Коли вона відчинила вікно, сніг уже розтанув, і діти знову гралися на лузі.",
    "ar": "عندما فتحت النافذة رأت أن المطر قد توقف وأن الأطفال يلعبون في الشارع.",
    "fa": "وقتی پنجره را باز کرد دید که برف آب شده است و بچه‌ها دوباره بازی می‌کنند.",
    "hi": "जब उसने खिड़की खोली तो बारिश रुक चुकी थी और बच्चे फिर से मैदान में खेल रहे थे।",
    "de": "Als Anna am Morgen erwachte, war der Schnee geschmolzen, und die Kinder spielten.",
    "fr": "Quand elle ouvrit la porte, le chat avait déjà mangé le poisson et dormait près du feu.",
    "es": "Cuando llegó el tren, los niños corrieron porque querían ver a su abuela.",
    "it": "Quando aprì la finestra, vide che la neve copriva già tutte le strade.",
    "pt": "Quando a chuva parou, as crianças saíram para a rua e começaram a brincar.",
    "nl": "Toen zij de deur opendeed, stond de hond al te wachten omdat hij wilde gaan wandelen.",
    "pl": "Kiedy otworzyła okno, zobaczyła, że śnieg już stopniał, a dzieci bawią się na łące.",
    "en": "When she opened the window, the snow had melted, and the children played in the field.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_is_recognized(language):
    assert detect_language(SENTENCES[language]) == language


@pytest.mark.parametrize(
    "text",
    [
        "Wo liegt Hamburg?",  # short
        "Johann Wolfgang von Goethe, Heinrich von Kleist, Annette von Droste-Hülshoff",  # names
        "Il Gattopardo is a novel by Giuseppe Tomasi di Lampedusa about Sicily.",
        "Les Misérables, À la recherche du temps perdu, Le Père Goriot: three French novels.",
        "The Chinese word 红楼梦 means dream of the red chamber.",
        "La colpa di una madre is a 1952 Italian melodrama film.",
        "La peste des insectes and Les Fleurs du mal are in French; the others are in English.",
        "Der Spiegel und die Zeit are two German weeklies.",
        "hammer nails wood glue paint brush bucket ladder saw drill tape screw bolt nut",
        "1984: 12 %",
        "",
    ],
)
def test_anything_else_in_latin_letters_counts_as_english(text):
    assert detect_language(text) == "en"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("OpenAI 的 GPT-4 模型在 MMLU 上得分很高，超过了 Claude。", "zh"),
        ("賈寶玉與林黛玉的故事", "zh"),
        (
            "日本动画片《となりのトトロ》由宫崎骏导演，在中国也很受欢迎，票房超过了一亿元人民币。",
            "zh",
        ),
        ("東京タワー", "ja"),
        ("ᚠᚢᚦᚨᚱᚲ Москва", "ru"),
        ("ᎠᏂᏴᏫᏯ ᎦᏬᏂᎯᏍᏗ", "und"),  # Cherokee has no code of two letters
    ],
)
def test_the_script_of_most_letters_decides(text, language):
    assert detect_language(text) == language


def test_the_middle_of_a_long_text_counts():
    license_text = "Permission is hereby granted to any person who has obtained a copy of this. "
    text = license_text * 5 + SENTENCES["zh"] * 300 + license_text * 5
    assert detect_language(text) == "zh"
    assert main_script(text) == "Hani"


def test_english_texts_need_no_statistics():
    """They take a second to load and 100 MB of memory."""
    code = (
        "import sys\n"
        "from e2graphrag_integrations.languages.detection import detect_language\n"
        f"assert detect_language({SENTENCES['en'] * 3!r}) == 'en'\n"
        f"assert detect_language({SENTENCES['zh']!r}) == 'zh'\n"
        "assert 'py3langid' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_an_unclear_text_is_in_the_main_language_of_the_others():
    texts = [SENTENCES["de"], SENTENCES["de"], "Wo liegt Hamburg?", "Liste 1984", "12 %"]
    assert detect_languages(texts) == ["de"] * 5
    assert detect_languages(["Wo liegt Hamburg?", "12 %"], {"de": 3, "en": 1}) == ["de", "de"]
    assert detect_languages(["Wo liegt Hamburg?"], {"zh": 9, "de": 1}) == ["en"]  # another script


def test_function_words_choose_a_language_of_the_index_for_a_short_text():
    known = {"de": 9, "en": 2, "fr": 1}
    assert detect_languages(["What is this for?", "Das Haus an der Elbe"], known) == ["en", "de"]


def test_a_clear_text_keeps_its_language_in_an_index_of_another():
    texts = [SENTENCES["en"], SENTENCES["pl"], SENTENCES["zh"]]
    assert detect_languages(texts, {"de": 1000}) == ["en", "pl", "zh"]


@pytest.mark.parametrize(
    ("language", "notes"),
    [
        (
            "de",
            [
                "Kühlschrank kaputt, Techniker kommt Dienstag.",
                "Milch, Eier, Käse kaufen.",
                "Omas Geburtstag: 12. März.",
                "Zahnarzt Donnerstag 15 Uhr.",
                "Schlüssel bei Familie Krüger.",
                "Die Miete ist am Montag fällig.",
            ],
        ),
        ("en", ["Milk, eggs, cheese.", "Dentist Thursday 3 pm.", "Key at the Millers."]),
    ],
)
def test_short_notes_are_in_the_language_of_all_of_them(language, notes):
    assert set(detect_languages(notes)) == {language}
