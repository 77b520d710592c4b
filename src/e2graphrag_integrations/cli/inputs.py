"""Turn command-line arguments into documents, indexes and summarizers."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.loaders import path_exists, read_documents, source_files
from e2graphrag_integrations.store.connection import MEMORY

if TYPE_CHECKING:
    from e2graphrag_integrations.engine import E2GraphRAG
    from e2graphrag_integrations.summarizers.openai_chat import OpenAISummarizer
    from e2graphrag_integrations.types import SourceDocument


def read_sources(paths: Sequence[str]) -> list[SourceDocument]:
    """Read files, folders and standard input.

    Raises:
        InvalidInputError: If a path cannot be read; see `read_documents`.
    """
    return read_documents(paths, getattr(sys.stdin, "buffer", None))


def check_new_index(path: str, sources: Sequence[str] = ()) -> None:
    """Check the `--out` path.

    Args:
        path: The index file to create or to extend.
        sources: Files and folders to index.

    Raises:
        InvalidInputError: If the path is invalid, is `:memory:`, or is one of the source files.
    """
    if path == MEMORY:
        raise InvalidInputError(f"--out {path}: the index would be lost at exit; name a file")
    if path_exists(path) and any(Path(path).samefile(source) for source in source_files(sources)):
        raise InvalidInputError(f"--out {path} is one of the files to index: choose another path")


def open_index(
    path: str, *, summarizer: OpenAISummarizer | None = None, concurrency: int = 4
) -> E2GraphRAG:
    """Open an existing index.

    Args:
        path: The index file.
        summarizer: Writes the summaries; None means that sentences are extracted instead.
        concurrency: Maximum number of concurrent calls to the summarizer.

    Raises:
        InvalidInputError: If the file does not exist or is empty.
        StoreError: If the file is not a valid index.
    """
    from e2graphrag_integrations.engine import E2GraphRAG

    if not path_exists(path) or not Path(path).is_file():
        raise InvalidInputError(f"index {path} does not exist: create it with `e2graphrag index`")
    if Path(path).stat().st_size == 0:
        raise InvalidInputError(f"{path} is an empty file: create an index with `e2graphrag index`")
    return E2GraphRAG.open(path, summarizer=summarizer, concurrency=concurrency)


def make_summarizer(
    model: str | None, base_url: str | None, api_key_env: str | None, *, estimate: bool = False
) -> OpenAISummarizer | None:
    """Return a summarizer for the `--llm-*` options; None means no LLM.

    Args:
        model: Name of the model.
        base_url: Address of an OpenAI-compatible server; None means OpenAI.
        api_key_env: Environment variable that contains the API key; None means `OPENAI_API_KEY`.
        estimate: Whether the summarizer only identifies the model and makes no calls.

    Raises:
        InvalidInputError: If the API key is missing, or an option is given without `--llm-model`.
    """
    if model is None:
        if base_url or api_key_env:
            raise InvalidInputError("--llm-base-url and --llm-api-key-env require --llm-model")
        return None
    from e2graphrag_integrations.summarizers.openai_chat import OpenAISummarizer

    variable = api_key_env or "OPENAI_API_KEY"
    key = os.environ.get(variable)
    if not key and not estimate and (api_key_env or not base_url):
        raise InvalidInputError(f"the environment variable {variable} contains no API key")
    # The OpenAI client requires a key; most local servers accept any.
    return OpenAISummarizer(model, base_url=base_url, api_key=key or "none")
