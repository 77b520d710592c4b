"""Limits for one file, so that a crafted file cannot stop an indexing run."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import Any

from e2graphrag_integrations._utils.failures import CodedText
from e2graphrag_integrations._utils.validation import check_int, check_seconds
from e2graphrag_integrations.errors import FileLimitError


@dataclass(frozen=True, slots=True)
class LoaderLimits:
    """The maximum content of one file. A file that exceeds a limit raises `FileLimitError`.

    The counts bound the work, so the same file passes or fails on every machine. `seconds` is a
    second line of defense. It is checked after every page, drawing operator, 64 KiB of markup and
    1,000 XML elements, so a reader stops soon after, but not in the middle of such a step. A reader
    does not run in a process of its own, which could be killed: starting one takes longer than
    reading a typical file.

    Attributes:
        file_bytes: Size of the file.
        unpacked_bytes: Size of the XML of an office file or a book, or of the text of a PDF or RTF
            file.
        parts: Number of entries in an office file or a book. Images and other embedded files are
            not unpacked.
        cells: Number of table cells in a file.
        pages: Number of pages in a PDF file; a page that is listed twice counts twice.
        headings: Number of headings in a file, or of bookmarks in a PDF file.
        seconds: Time for reading one file.

    Raises:
        InvalidInputError: If a limit is not positive.
    """

    file_bytes: int = 512 * 2**20
    unpacked_bytes: int = 128 * 2**20
    parts: int = 10_000
    cells: int = 1_000_000
    pages: int = 20_000
    headings: int = 100_000
    seconds: float = 60.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "seconds":
                check_int(field.name, getattr(self, field.name), most=None)
        check_seconds("seconds", self.seconds)


class Budget:
    """Counts the work on one file and compares it with the limits.

    Args:
        limits: The limits.
        origin: Name of the file in error messages.

    Attributes:
        guess: The encoding in which a reader has read the file, if it is not certain.
        warnings: What else may be wrong with the text, as messages that name the file.
    """

    def __init__(self, limits: LoaderLimits, origin: str) -> None:
        self.limits = limits
        self.origin = origin
        self.guess: str | None = None
        self.warnings: list[CodedText] = []
        self._unpacked = self._cells = self._headings = 0
        self._deadline = time.monotonic() + limits.seconds

    def warn(self, code: str, template: str, **values: Any) -> None:
        """Note what may be wrong with the text, unless it is noted already; see `CodedText`."""
        text = CodedText(code, template, file=self.origin, **values)
        if text not in self.warnings:  # a mailbox may repeat one for each of its messages
            self.warnings.append(text)

    def check_file(self, size: int) -> None:
        """Raise an error if the file is too large."""
        self._check(size, self.limits.file_bytes, "file_bytes", "bytes")

    def check_parts(self, count: int) -> None:
        """Raise an error if an archive has too many entries."""
        self._check(count, self.limits.parts, "parts", "entries")

    def add_cell(self) -> None:
        """Count a table cell."""
        self._cells += 1
        self._check(self._cells, self.limits.cells, "cells", "table cells", at_least=True)

    def add_heading(self) -> None:
        """Count a heading."""
        self._headings += 1
        self._check(self._headings, self.limits.headings, "headings", "headings", at_least=True)

    def add_unpacked(self, size: int) -> None:
        """Count unpacked bytes of XML, or characters of text."""
        self._unpacked += size
        self._check(
            self._unpacked, self.limits.unpacked_bytes, "unpacked_bytes", "bytes", at_least=True
        )

    def check_time(self) -> None:
        """Raise an error if the time is up."""
        if time.monotonic() > self._deadline:
            raise FileLimitError(
                CodedText(
                    "slow_file",
                    "{file} takes longer than {seconds:g} seconds to read: pass a larger "
                    "LoaderLimits(seconds=...) if you trust the file",
                    file=self.origin,
                    seconds=self.limits.seconds,
                )
            )

    def _check(
        self, value: int, limit: int, name: str, unit: str, *, at_least: bool = False
    ) -> None:
        if value > limit:
            count = f"more than {limit:,}" if at_least else f"{value:,}"
            raise FileLimitError(
                CodedText(
                    f"many_{name}",
                    f"{{file}} contains {count} {unit}, and the limit is {{limit:,}}: split the "
                    f"file, or pass a larger LoaderLimits({name}=...) if you trust it",
                    file=self.origin,
                    limit=limit,
                )
            )
