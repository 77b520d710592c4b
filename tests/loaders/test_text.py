"""Plain text: encodings and byte order marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2graphrag_integrations.errors import UnreadableFileError
from e2graphrag_integrations.loaders import read_documents, read_file


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
