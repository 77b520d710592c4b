"""Read the XML parts of ZIP archives, such as office files and books, within the limits.

Only the parts that are asked for are unpacked, piece by piece, and entities are not expanded.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from e2graphrag_integrations.errors import UnreadableFileError
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.parsing import (
    LOCKED,
    OLD_FORMAT,
    translate_errors,
    unreadable,
)

_PIECE_BYTES = 64 * 1024
_ELEMENTS_PER_CHECK = 1000

_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,  # a missing part
    NotImplementedError,  # an unknown compression
    RuntimeError,  # an encrypted part
    OSError,  # a damaged offset
    ValueError,
)


_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
"""The name of the part of a file with a password that contains the office file."""


class Relation(NamedTuple):
    """A relation of a part: the last word of its type, and the name of the other part."""

    kind: str
    target: str


class Archive:
    """An archive.

    Args:
        data: Content of the file.
        file_format: Name of the format in error messages.
        budget: Limits of the file.

    Raises:
        UnreadableFileError: If `data` is not an archive.
        FileLimitError: If it has too many parts.
    """

    def __init__(self, data: bytes, file_format: str, budget: Budget) -> None:
        self._format, self._budget = file_format, budget
        self._check_start(data)
        with translate_errors(file_format, budget.origin, *_ARCHIVE_ERRORS):
            self._archive = zipfile.ZipFile(io.BytesIO(data))
            self.names = frozenset(self._archive.namelist())
        budget.check_parts(len(self.names))

    def _check_start(self, data: bytes) -> None:
        """Say what a file is that is not an archive."""
        if data.startswith(OLD_FORMAT):
            is_encrypted = _ENCRYPTED in data
            raise self.refuse(
                LOCKED
                if is_encrypted
                else "it is in an old format, such as .doc or .xls: save it in the new one"
            )
        if not zipfile.is_zipfile(io.BytesIO(data)):
            raise self.refuse("it is damaged, or in another format" if data else "it is empty")

    def refuse(self, reason: str) -> UnreadableFileError:
        """Return the error for a file that is not in the format."""
        return unreadable(self._budget.origin, self._format, reason)

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the content of a part; the sizes in the archive can be wrong, so bytes are counted.

        Raises:
            UnreadableFileError: If the part is missing or damaged.
            FileLimitError: If the parts are too large together.
        """
        with translate_errors(self._format, self._budget.origin, *_ARCHIVE_ERRORS):
            part = self._archive.open(name)
        while True:
            with translate_errors(self._format, self._budget.origin, *_ARCHIVE_ERRORS):
                piece = part.read(_PIECE_BYTES)
            if not piece:
                return
            self._budget.add_unpacked(len(piece))
            self._budget.check_time()
            yield piece

    def events(self, name: str) -> Iterator[tuple[str, Any]]:
        """Yield the starts and ends of the elements of a part, which are freed at their ends.

        Raises:
            UnreadableFileError: If the part is missing, damaged or not XML.
            FileLimitError: If the parts are too large together.
        """
        from lxml import etree

        parser = etree.XMLPullParser(("start", "end"), resolve_entities=False, no_network=True)
        count = 0
        for piece in self.pieces(name):
            with translate_errors(self._format, self._budget.origin, etree.XMLSyntaxError):
                parser.feed(piece)
            for event, element in parser.read_events():
                count += 1
                if count % _ELEMENTS_PER_CHECK == 0:
                    self._budget.check_time()
                if isinstance(element.tag, str):  # not a comment or a processing instruction
                    yield event, element
                if event == "end":
                    element.clear(keep_tail=True)
                    while element.getprevious() is not None:
                        del element.getparent()[0]
        with translate_errors(self._format, self._budget.origin, etree.XMLSyntaxError):
            parser.close()

    def events_outside(self, skipped: Collection[str], name: str) -> Iterator[tuple[str, str, Any]]:
        """Yield the `events` that are not in elements with some names: event, name and element."""
        depth = 0
        for event, element in self.events(name):
            own = local_name(element)
            if own in skipped:
                depth += 1 if event == "start" else -1
            elif not depth:
                yield event, own, element

    def relations(self, part: str = "") -> dict[str, Relation]:
        """Return the relations of a part of an office file, or of the file itself, by their ids."""
        folder, name = posixpath.split(part)
        found: dict[str, Relation] = {}
        for event, element in self.events(posixpath.join(folder, "_rels", f"{name}.rels")):
            if event == "start" and local_name(element) == "Relationship":
                target = posixpath.normpath(
                    posixpath.join("/", folder, str(element.get("Target", "")))
                )
                kind = str(element.get("Type", "")).rpartition("/")[2]
                found[str(element.get("Id", len(found)))] = Relation(kind, target.lstrip("/"))
        return found

    def related(self, part: str) -> list[Relation]:
        """Return the relations of a part to others in the archive; none if it has no relations."""
        folder, name = posixpath.split(part)
        if posixpath.join(folder, "_rels", f"{name}.rels") not in self.names:
            return []
        return [one for one in self.relations(part).values() if one.target in self.names]

    def main_part(self) -> str:
        """Return the name of the part of an office file that contains the text.

        Raises:
            UnreadableFileError: If there is none.
        """
        for relation in self.relations().values():
            if relation.kind == "officeDocument":
                return relation.target
        raise self.refuse("it has no main part")

    def title(self) -> str:
        """Return the title of an office file; an empty string if it has none."""
        name, title = "docProps/core.xml", ""
        for event, element in self.events(name) if name in self.names else ():
            if event == "end" and local_name(element) == "title":
                title = (element.text or "").strip()
        return title


def local_name(element: Any) -> str:
    """Return a name without its namespace, which differs between the variants of a format."""
    return "" if element is None else str(element.tag).rpartition("}")[2]


def relation_id(element: Any) -> str:
    """Return the id of a relation; an element can also have an id of its own, without a namespace.

    Empty if there is none.
    """
    found = (v for k, v in element.attrib.items() if k.startswith("{") and k.endswith("}id"))
    return next(found, "")


def attribute(element: Any, name: str) -> str | None:
    """Return the value of an attribute, whatever its namespace; None if it is missing."""
    return next((v for k, v in element.attrib.items() if k.rpartition("}")[2] == name), None)
