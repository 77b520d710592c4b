"""Readers that turn files into documents: text, Markdown, PDF, HTML and DOCX.

The command line reads its inputs with this package. PDF, HTML and DOCX need the `files` extra.
"""

from __future__ import annotations

from e2graphrag_integrations.loaders.files import (
    path_exists,
    read_documents,
    read_file,
    source_files,
)

__all__ = ["path_exists", "read_documents", "read_file", "source_files"]
