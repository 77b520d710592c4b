"""Readers that turn files into documents: texts, source code, PDF, HTML, office files, books.

The command line reads its inputs with this package. All but texts and code need the `files` extra.
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
