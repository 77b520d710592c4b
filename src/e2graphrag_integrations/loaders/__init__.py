"""Readers that turn files into documents: text, Markdown, source code, PDF, HTML and DOCX.

The command line reads its inputs with this package. PDF, HTML and DOCX need the `files` extra.
"""

from __future__ import annotations

from e2graphrag_integrations.loaders.files import (
    SkippedFile,
    path_exists,
    read_data,
    read_documents,
    read_file,
    source_files,
)
from e2graphrag_integrations.loaders.limits import LoaderLimits

__all__ = [
    "LoaderLimits",
    "SkippedFile",
    "path_exists",
    "read_data",
    "read_documents",
    "read_file",
    "source_files",
]
