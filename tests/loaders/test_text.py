"""Plain text: encodings and byte order marks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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


def test_escaped_letters_of_json_are_read_and_records_stay_lines():
    data = rb"""{"name": "Zo\u00eb", "face": "\ud83d\ude00", "text": "One\n\nTwo\tThree\u00a0m"}
{"path": "C:\\new\\u00eb", "odd": "\u0022 \u0000 \ud83d \u2028 \"", "plain": "\u0041"}"""
    first, second = read_data(data, "a.jsonl").text.split("\n")
    assert first == '{"name": "Zo\u00eb", "face": "\U0001f600", "text": "One Two Three\u00a0m"}'
    given = data.decode().split("\n")[1]
    assert second == given.replace(r"\u0041", "A").replace(r"\u0022", r"\"")
    assert json.loads(second)["path"] == r"C:\new\u00eb"


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
def test_what_is_no_notebook_or_has_no_text_is_refused(text: str):
    with pytest.raises(UnreadableFileError, match="is not a readable notebook"):
        read_data(text.encode(), "a.ipynb")
