"""Finding files and folders, and choosing a reader for each file."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    InvalidInputError,
    MissingDependencyError,
    UnreadableFileError,
)
from e2graphrag_integrations.loaders import (
    SkippedFile,
    files,
    read_data,
    read_documents,
    read_file,
    source_files,
)
from e2graphrag_integrations.loaders.parsing import OLD_FORMAT
from file_makers import make_docx, make_pdf


def test_folder_yields_relative_posix_ids_in_sorted_order(tmp_path: Path):
    (tmp_path / "b" / "deep").mkdir(parents=True)
    (tmp_path / "b" / "deep" / "z.md").write_text("# Title\n\nBody.")
    (tmp_path / "a.txt").write_text("A.")
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "c.txt").write_text("C.")
    assert [d.id for d in read_documents([tmp_path])] == ["a.txt", "b/deep/z.md"]


def test_a_single_path_is_read(tmp_path: Path):
    (tmp_path / "a.txt").write_text("Alice met Bob.")
    for path in (tmp_path, str(tmp_path), tmp_path / "a.txt"):
        assert [one.id for one in read_documents(path)] == ["a.txt"]


def test_dash_reads_standard_input():
    [document] = read_documents(["-"], io.BytesIO(b"From a pipe."))
    assert (document.id, document.text) == ("stdin", "From a pipe.")


def test_closed_or_failing_standard_input_is_rejected():
    with pytest.raises(InvalidInputError, match="standard input is closed"):
        read_documents(["-"])

    class Broken(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(UnreadableFileError, match="standard input cannot be read: Input/output"):
        read_documents(["-"], Broken())


@pytest.mark.parametrize("path", ["", "x\0y", "n" * 300], ids=["empty", "nul", "too_long"])
def test_invalid_path_is_rejected(path: str):
    with pytest.raises(InvalidInputError):
        read_documents([path])


def test_broken_links_with_names_of_texts_are_reported_in_folders(tmp_path: Path):
    (tmp_path / "a.txt").write_text("A.")
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "self.txt").symlink_to(tmp_path / "self.txt")
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "nowhere")
    (tmp_path / "long.txt").symlink_to("n" * 300)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    skipped: list[SkippedFile] = []
    assert [d.id for d in read_documents([tmp_path], on_skip=skipped.append)] == ["a.txt"]
    unread = {file.document_id: file.reason.rpartition(": ")[2] for file in skipped}
    assert unread == {
        "dangling.txt": "No such file or directory",
        "long.txt": "File name too long",
        "self.txt": "Too many levels of symbolic links",
    }
    for name in ("self.txt", "dangling.txt"):
        with pytest.raises(InvalidInputError):
            read_documents([tmp_path / name])


def test_source_files_lists_readable_files_without_reading_them(tmp_path: Path):
    (tmp_path / "b").mkdir()
    for name in ("a.txt", "b/c.md", "b/d.jpg"):
        (tmp_path / name).touch()
    found = source_files([tmp_path / "a.txt", "-", tmp_path / "b"])
    assert found == [tmp_path / "a.txt", tmp_path / "b" / "c.md"]


def test_missing_path_and_folder_without_readable_files_are_rejected(tmp_path: Path):
    with pytest.raises(InvalidInputError, match=r"nowhere does not exist"):
        read_documents([tmp_path / "nowhere"])
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8")
    with pytest.raises(InvalidInputError, match=r"contains no file of a known kind, .*\.docx"):
        read_documents([tmp_path])


def test_two_files_with_one_id_are_rejected_with_both_paths(tmp_path: Path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(folder)
    with pytest.raises(DuplicateDocumentError, match=r"two.*one.*'a\.txt'"):
        read_documents([tmp_path / "one", tmp_path / "two"])


def test_a_file_that_is_found_twice_is_read_once(tmp_path: Path, monkeypatch):
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    (folder / "b.txt").write_text("B.")
    (folder / "sub" / "c.txt").write_text("C.")
    (folder / "a_link.txt").symlink_to("b.txt")
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    ids = ["b.txt", "sub/c.txt"]
    for again in (
        "texts",
        "./texts/",
        "link",
        tmp_path / "texts",
        "texts/sub/../b.txt",
        "link/b.txt",
    ):
        assert [one.id for one in read_documents(["texts", again])] == ids
    assert [one.id for one in read_documents(["texts", "texts/sub/c.txt"])] == ids
    assert [one.id for one in read_documents(["texts/b.txt", "./texts/b.txt"])] == ["b.txt"]
    assert [one.id for one in read_documents(["texts/a_link.txt"])] == ["a_link.txt"]
    assert len(source_files(["texts", "link"])) == 2


def test_a_file_name_that_is_not_utf_8_becomes_an_id_with_escapes(tmp_path: Path):
    (tmp_path / "a.txt").write_text("A.")
    name = os.fsencode(tmp_path) + b"/caf\xe9"
    try:
        Path(os.fsdecode(name)).mkdir()
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    Path(os.fsdecode(name + b"/\xff.txt")).write_text("Bob.")
    Path(os.fsdecode(name + b"/\xff.pdf")).write_text("Bob.")
    skipped: list[SkippedFile] = []
    documents = read_documents([tmp_path], on_skip=skipped.append)
    assert [one.id for one in documents] == ["a.txt", r"caf\xe9/\xff.txt"]
    [file] = skipped
    assert file.document_id == r"caf\xe9/\xff.pdf"
    assert file.reason.isprintable()


def test_files_of_windows_and_of_open_office_programs_are_ignored_in_folders(tmp_path: Path):
    for name in ("a.txt", "desktop.ini", "Thumbs.db", "~$a.docx", "b~$.txt"):
        (tmp_path / name).write_text("A.")
    skipped: list[SkippedFile] = []
    assert [d.id for d in read_documents(tmp_path, on_skip=skipped.append)] == ["a.txt", "b~$.txt"]
    assert skipped == []


def test_the_reason_for_a_skipped_file_says_how_to_read_it(tmp_path: Path):
    for name in ("a.txt", "b.DOC", "c.ods", "d.zip", "e.bin"):
        (tmp_path / name).write_text("A.")
    skipped: list[SkippedFile] = []
    read_documents(tmp_path, on_skip=skipped.append)
    assert [file.reason for file in skipped] == [
        "unknown kind of file: .DOC; save it as .docx",
        "unknown kind of file: .ods; save it as .xlsx",
        "unknown kind of file: .zip; unpack it",
        "unknown kind of file: .bin",
    ]


def test_a_file_whose_path_is_too_long_for_an_id_is_skipped(tmp_path: Path):
    deep = tmp_path.joinpath(*["x" * 250] * 4)
    deep.mkdir(parents=True)
    (deep / "a.txt").write_text("Anna.")
    (tmp_path / "b.txt").write_text("Bert.")
    skipped: list[SkippedFile] = []
    assert [d.id for d in read_documents(tmp_path, on_skip=skipped.append)] == ["b.txt"]
    [file] = skipped
    assert file.path == deep / "a.txt"
    assert "a.txt cannot be a document: the id of a document has 1,009 bytes" in file.reason
    assert [d.id for d in read_documents(deep)] == ["a.txt"]


def test_folders_whose_files_are_not_found_are_reported(tmp_path: Path, monkeypatch):
    folder = tmp_path / "given"
    for name in ("given/real/b.txt", "given/locked/c.txt", "outside/d.txt"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("A.")
    (folder / "inner").symlink_to("real")
    (folder / "round").symlink_to(folder)
    (folder / "up").symlink_to(tmp_path)
    (folder / "out").symlink_to(tmp_path / "outside")
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path).name != "locked" and access(path, mode)
    )
    skipped: list[SkippedFile] = []
    read_documents(folder, on_skip=skipped.append)
    assert {file.document_id: file.error is None for file in skipped} == {
        "locked": False,
        "out": True,
    }
    assert [file.reason.rpartition("/")[2] for file in skipped] == [
        "locked cannot be read: Permission denied",
        "a link to a folder, which is not followed: give the folder itself, too",
    ]
    assert [path.name for path in source_files([folder])] == ["c.txt", "b.txt"]
    with pytest.raises(InvalidInputError, match="cannot be read: permission denied"):
        read_documents(folder / "locked")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"Alice met Bob.", "it is damaged, or in another format"),
        (make_docx({})[:-300], "it is damaged, or in another format"),
        (OLD_FORMAT + b"\0" * 600, "it is in an old format, such as .doc or .xls"),
        (
            OLD_FORMAT + b"\0" * 600 + "EncryptedPackage".encode("utf-16-le"),
            "it is protected with a password",
        ),
    ],
    ids=["empty", "text", "cut", "old", "password"],
)
@pytest.mark.parametrize("suffix", ["docx", "xlsx", "pptx", "epub"])
def test_what_is_wrong_with_an_office_file_is_said_in_words(
    content: bytes, reason: str, suffix: str
):
    with pytest.raises(UnreadableFileError, match=f"is not a readable {suffix.upper()}.*{reason}"):
        read_data(content, f"a.{suffix}")


def test_unknown_suffix_is_read_as_text_if_given_directly(tmp_path: Path):
    (tmp_path / "notes.log").write_text("Line.")
    assert read_documents([tmp_path / "notes.log"])[0].text == "Line."


@pytest.mark.parametrize("name", ["broken.pdf", "broken.docx"])
def test_content_that_does_not_match_the_suffix_is_rejected(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"no such format")
    with pytest.raises(UnreadableFileError, match="is not a readable"):
        read_file(tmp_path / name)


def test_recursion_error_in_a_parser_is_reported_as_unreadable_file(tmp_path: Path, monkeypatch):
    def recurse(source: object) -> None:
        recurse(source)

    (tmp_path / "a.pdf").touch()
    monkeypatch.setattr("pypdf.PdfReader", lambda source, **_: recurse(source))
    with pytest.raises(UnreadableFileError, match="recursion"):
        read_file(tmp_path / "a.pdf")


@pytest.mark.parametrize(
    ("name", "function"),
    [("a.docx", "docx._Body"), ("a.pdf", "pdf._PageText"), ("a.html", "html._Page")],
)
def test_a_mistake_of_this_package_is_not_reported_as_a_broken_file(
    tmp_path: Path, monkeypatch, name: str, function: str
):
    def fail(*_: object) -> None:
        raise LookupError("our mistake")

    (tmp_path / "a.docx").write_bytes(make_docx({}))
    (tmp_path / "a.pdf").write_bytes(make_pdf(["Page."]))
    (tmp_path / "a.html").write_bytes(b"<p>Bob")
    monkeypatch.setattr(f"e2graphrag_integrations.loaders.{function}", fail)
    with pytest.raises(LookupError, match="our mistake"):
        read_file(tmp_path / name)


def test_missing_library_is_reported_with_the_extra_to_install(tmp_path: Path, monkeypatch):
    def reader(*_: object) -> None:
        raise ImportError(name="pypdf")

    monkeypatch.setattr(files, "READERS", {".pdf": reader})
    (tmp_path / "a.pdf").touch()
    with pytest.raises(MissingDependencyError, match=r"pypdf.*e2graphrag-integrations\[files\]"):
        read_file(tmp_path / "a.pdf")
