"""Encodings of text files: found by the letters, or given."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pytest

from e2graphrag_integrations.errors import InvalidInputError, UnreadableFileError
from e2graphrag_integrations.loaders import read_data, read_documents, read_file

TEXTS = {
    "gb18030": [
        "灯塔由安娜·霍尔姆于1902年建造。港口在同一年开放。",
        "张伟和李娜在北京见面。",
        "会议纪要",
    ],
    "big5": ["燈塔由安娜·霍姆於1902年建造。", "張偉和李娜在台北見面。", "會議紀要"],
    "shift_jis": [
        "灯台は1902年に建てられた。",
        "山田さんは東京で田中さんに会った。",
        "会議の議事録",
    ],
    "euc_jp": ["吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。"],
    "euc_kr": [
        "등대는 1902년에 안나 홀름이 지었다.",
        "김철수는 서울에서 이영희를 만났다.",
        "회의록",
    ],
    "latin-1": ["Müller traf Frau Schäfer in Köln.", "Le café est fermé à midi.", "naïve", "Año"],
    "cp1252": ["The “old” lighthouse — built in 1902 — isn’t open.", "It costs €50 per day…"],
    "cp1250": ["Zażółć gęślą jaźń. Anna zbudowała latarnię morską w 1902 roku."],
    "cp1251": [
        "Анна Хольм построила маяк в 1902 году.",
        "Иванов встретил Петрова в Москве.",
        "Привет",
    ],
    "koi8_r": ["Анна Хольм построила маяк в 1902 году.", "Протокол совещания"],
    "cp1253": ["Ο φάρος χτίστηκε το 1902 από την Άννα."],
    "cp1254": ["Deniz feneri 1902 yılında Ayşe tarafından inşa edildi."],
    "cp1255": ["המגדלור נבנה בשנת 1902 על ידי חנה."],
    "cp1256": ["بنت آنا المنارة في عام 1902. افتتح الميناء في نفس العام."],
}
WIDE = ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]
CASES = [(name, text) for name, texts in TEXTS.items() for text in texts] + [
    (name, text)
    for name in WIDE
    for text in ("Anna met Bob.", "Müller traf Bob in Köln.", "张伟和李娜在北京见面。", "Привет")
]


@pytest.mark.fast_cases(15)
@pytest.mark.parametrize(("encoding", "text"), CASES)
def test_a_text_in_another_encoding_is_read_and_the_encoding_is_logged(
    encoding: str, text: str, caplog
):
    assert read_data(text.encode(encoding), "a.txt").text == text
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    shown = {"latin-1": "cp1252"}.get(encoding, encoding.replace("_", "-"))
    assert f" {shown} (a.txt)".replace("-", "_") in record.getMessage().replace("-", "_")


@pytest.mark.parametrize("suffix", [".txt", ".md", ".csv", ".json", ".html"])
def test_all_kinds_of_text_files_are_decoded(tmp_path: Path, suffix: str):
    path = tmp_path / f"a{suffix}"
    path.write_bytes("李娜,北京,价格\n张伟,上海,价格\n".encode("gb18030"))
    assert "张伟" in read_file(path).text


def test_one_line_names_the_encodings_of_all_files_and_utf_8_is_not_mentioned(
    tmp_path: Path, caplog
):
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("Иванов встретил Петрова.", encoding="cp1251")
    (tmp_path / "de.txt").write_text("Müller traf Schäfer in Köln.", encoding="cp1252")
    (tmp_path / "utf8.txt").write_text("Müller", encoding="utf-8")
    (tmp_path / "marked.txt").write_text("Müller", encoding="utf-16")
    assert len(read_documents([tmp_path])) == 8
    [record] = caplog.records
    message = record.getMessage()
    assert "6 file(s)" in message
    assert "cp1251 (0.txt, 1.txt, 2.txt and 2 more), cp1252 (de.txt)" in message


def test_the_letters_may_come_late_in_a_long_file():
    for end in ("\n", " "):
        text = f"Anna met Bob.{end}" * 20_000 + "Müller traf Schäfer in Köln.\n"
        assert read_data(text.encode("cp1252"), "a.txt").text == text


def test_a_given_encoding_is_used_for_texts_and_pages_only(tmp_path: Path, caplog):
    (tmp_path / "a.txt").write_bytes("“Año”".encode("mac_roman"))
    (tmp_path / "b.html").write_bytes(
        b"<meta charset=utf-8><p>" + "“Año”".encode("mac_roman") + b"</p>"
    )
    texts = [one.text for one in read_documents([tmp_path], encoding="mac_roman")]
    assert texts == ["“Año”", "“Año”"]
    assert not caplog.records
    assert read_data(b"\xff\xfeA\x00", "a.txt", encoding="utf-16-le").text == "A"
    with pytest.raises(UnreadableFileError, match=r"a\.txt is not valid UTF-8: byte 0 is 0xd2"):
        read_file(tmp_path / "a.txt", encoding="utf-8")


@pytest.mark.parametrize("name", ["klingon", "base64", "punycode", "-punycode", "rot13", ""])
def test_an_unknown_encoding_is_rejected(tmp_path: Path, name: str):
    (tmp_path / "a.txt").write_text("Bob.")
    with pytest.raises(InvalidInputError, match=r"unknown encoding .*use a name such as utf-8"):
        read_documents([tmp_path], encoding=name)


def test_a_damaged_utf_8_file_stays_utf_8_and_is_reported(caplog):
    text = "Müller traf Schäfer in Köln. " * 20
    data = text.encode()
    data = data[:300] + b"\xff" + data[300:-2]
    read = read_data(data, "a.txt").text
    assert read.count("Müller") == 20
    assert "\ufffd" in read
    assert "a.txt is UTF-8 with 1 damaged place(s)" in caplog.text
    assert read_data("Müll im Köln".encode()[:-3], "a.txt").text == "Müll im K\ufffd"


BINARY = {
    "image": (b"\x89PNG\r\n\x1a\n" + bytes(50), "it is an image"),
    "pdf": (b"%PDF-1.4\n%text", "it is a PDF file: give it the suffix .pdf"),
    "archive": (b"PK\x03\x04" + bytes(50), "it is a ZIP archive"),
    "old_office": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(50), "it is in an old format"),
    "zeros": (bytes(1000), "unknown encoding"),
    "random": (random.Random(7).randbytes(3000), "unknown encoding"),  # noqa: S311
    "numbers": (b"".join(n.to_bytes(4, "little") for n in range(500)), "unknown encoding"),
}


@pytest.mark.parametrize("name", BINARY)
def test_a_binary_file_is_refused_with_the_reason(name: str):
    data, reason = BINARY[name]
    with pytest.raises(UnreadableFileError, match=rf"a\.txt is not a text file.*{reason}"):
        read_data(data, "a.txt")
