"""Plain text: encodings and byte order marks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2graphrag_integrations import Segment
from e2graphrag_integrations.errors import UnreadableFileError
from e2graphrag_integrations.loaders import read_data, read_documents, read_file


def test_text_is_kept_verbatim_with_the_file_name_as_id(tmp_path: Path):
    (tmp_path / "a.txt").write_bytes("Zeile eins\r\nüber 日本\x00".encode())
    [document] = read_documents([tmp_path / "a.txt"])
    assert (document.id, document.text) == ("a.txt", "Zeile eins\r\nüber 日本\x00")


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]
)
def test_byte_order_mark_selects_the_encoding(tmp_path: Path, encoding: str):
    mark = "" if encoding == "utf-8-sig" else "\ufeff"
    (tmp_path / "a.txt").write_text(mark + "Grüße", encoding=encoding)
    assert read_file(tmp_path / "a.txt").text == "Grüße"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"\xff\xfeA\x00\x00\xd8", "UTF-16: byte 4 is 0x00", id="utf16"),
        pytest.param(b"\xff\xfe\x00\x00A\x00\x00\x00\x01", "UTF-32: byte 8 is 0x01", id="utf32"),
        pytest.param(b"\xef\xbb\xbfab\xff", "UTF-8: byte 5 is 0xff", id="utf8_mark"),
    ],
)
def test_invalid_encoding_is_rejected_with_file_and_offset(
    tmp_path: Path, data: bytes, message: str
):
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(UnreadableFileError, match=rf"a\.txt is not valid {message}"):
        read_file(tmp_path / "a.txt")


def test_colors_of_terminals_are_left_out():
    data = b"\x1b[1;31mERROR\x1b[0m db: no route\r\n"
    assert read_data(data, "a.log").text == "ERROR db: no route\r\n"


def test_escaped_letters_of_json_are_read_and_records_stay_lines():
    data = rb"""{"name": "Zo\u00eb", "face": "\ud83d\ude00", "text": "One\n\nTwo\tThree\u00a0m"}
{"path": "C:\\new\\u00eb", "odd": "\u0022 \u0000 \ud83d \u2028 \"", "plain": "\u0041"}"""
    first, second = read_data(data, "a.jsonl").text.split("\n")
    assert first == '{"name": "Zo\u00eb", "face": "\U0001f600", "text": "One Two Three\u00a0m"}'
    given = data.decode().split("\n")[1]
    assert second == given.replace(r"\u0041", "A").replace(r"\u0022", r"\"")
    assert json.loads(second)["path"] == r"C:\new\u00eb"


def test_escaped_slashes_of_json_are_read_and_escaped_backslashes_stay():
    data = rb"""{"url": "http:\/\/x.org", "day": "01\/02\/2024", "share": "\\\\/srv\\/a"}"""
    text = read_data(data, "a.json").text
    assert text == r"""{"url": "http://x.org", "day": "01/02/2024", "share": "\\\\/srv\\/a"}"""
    assert json.loads(text) == json.loads(data)


def test_a_notebook_is_read_without_outputs():
    cells = [
        {"cell_type": "markdown", "source": ["# Harbor\n", "Alice met Bob."]},
        {"cell_type": "code", "source": "# not a heading\nx = 1\n", "outputs": [{"text": ["1"]}]},
        {"cell_type": "code", "source": []},
    ]
    document = read_data(json.dumps({"cells": cells}).encode(), "a.ipynb")
    assert document.title == "Harbor"
    assert document.text == "# Harbor\nAlice met Bob.\n\n```\n# not a heading\nx = 1\n```\n"


@pytest.mark.parametrize("text", ["", "{}", '{"cells": []}', '{"cells": [3]}', "[" * 100_000])
def test_a_notebook_without_cells_or_text_is_refused(text: str):
    with pytest.raises(UnreadableFileError, match="is not a readable notebook"):
        read_data(text.encode(), "a.ipynb")


MEETING = """WEBVTT

NOTE made by a program
of two lines

3d2e-1f/12-0
00:00:03.100 --> 00:00:05.000
<v Alice Miller>Good morning.</v>

3d2e-1f/12-1
00:00:05.000 --> 00:00:08.000
<v Alice Miller>We start with
the budget.</v>

STYLE
::cue { color: red }

01:02:09.000 --> 01:02:11.000 align:start
<v Bob>It&#39;s 3 < 5 &amp; fine.</v>
"""
FILM = (
    "1\n00:00:01,000 --> 00:00:02,000\nHello <i>Alice</i>.\n \n"
    "2\n00:00:03,000 --> 00:00:04,000\n{\\an8}1984\n"
)
CAPTIONS = (
    "WEBVTT\nKind: captions\n\n00:01.000 --> 00:02.000\n \nhello<00:00:01.000><c> there</c>\n\n"
    "00:02.000 --> 00:02.010\nhello there\n \n\n00:02.010 --> 00:04.000\nhello there\nBob"
)

VOICES = """00:01.000 --> 00:03.000
<v Ann>We sell the boat.</v>

00:04.000 --> 00:05.000
The roof leaks.

00:06.000 --> 00:07.000
<v Bob>No.</v> <v.loud Ann>But
yes.</v>
"""
ANSWERS = """00:01.000 --> 00:02.000
Yes.

00:03.000 --> 00:04.000
Yes.

09:00.000 --> 09:01.000
Yes.
I paid.

09:01.000 --> 09:02.000
No.
No.
"""


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            MEETING,
            [
                ("00:00:03", "Alice Miller: Good morning. We start with the budget."),
                ("01:02:09", "Bob: It's 3 < 5 & fine."),
            ],
        ),
        (FILM, [("00:00:01", "Hello Alice. 1984")]),
        (FILM.replace("\n", "\r\n"), [("00:00:01", "Hello Alice. 1984")]),
        (
            FILM.replace("00:00:03", "00:01:03"),
            [("00:00:01", "Hello Alice."), ("00:01:03", "1984")],
        ),
        (CAPTIONS, [("00:00:01", "hello there Bob")]),
        (
            CAPTIONS.replace("00:02.010 -->", "00:03.010 -->"),
            [("00:00:01", "hello there Bob")],
        ),
        (
            VOICES,
            [
                ("00:00:01", "Ann: We sell the boat."),
                ("00:00:04", "The roof leaks."),
                ("00:00:06", "Bob: No."),
                ("00:00:06", "Ann: But yes."),
            ],
        ),
        (ANSWERS, [("00:00:01", "Yes. Yes."), ("00:09:00", "Yes. I paid. No. No.")]),
    ],
    ids=["meeting", "film", "windows", "pause", "captions", "late", "voices", "answers"],
)
def test_subtitles_become_paragraphs_with_their_times(text: str, parts: list[tuple[str, str]]):
    document = read_data(text.encode(), "a.vtt")
    assert [
        (one.metadata["time"], document.text[one.start : one.end].strip())
        for one in map(Segment._make, document.segments)
    ] == parts
    assert document.text == "".join(f"{part}\n\n" for _, part in parts)


def test_a_subtitle_file_without_times_is_kept_and_a_long_one_is_divided():
    assert read_data(b"Alice met Bob.\n", "a.srt").text == "Alice met Bob.\n"
    cue = b"00:00:00.000 --> 00:00:01.000\nword %d\n\n"
    document = read_data(b"".join(cue % n for n in range(3000)), "a.srt")
    assert len(document.segments) > 10
    assert len(document.text.split()) == 6000
