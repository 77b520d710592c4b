"""A notice about the global `Settings` of LlamaIndex that have no effect on an index."""

from __future__ import annotations

import logging

from llama_index.core import Settings
from llama_index.core.node_parser import SentenceSplitter

logger = logging.getLogger(__name__)

_SIZES = ("chunk_size", "chunk_overlap")


def warn_about_ignored_settings(used: int, *, has_chunk_size: bool) -> None:
    """Log the settings of the user for splitting that have no effect, and their replacement.

    LlamaIndex splits for an embedding model, but a chunk here is a leaf of the summary tree and is
    embedded in windows, so its sizes mean something else.

    Args:
        used: The chunk size of the index, in tokens.
        has_chunk_size: Whether the user passed `chunk_size` to the index.
    """
    if Settings._transformations is not None and Settings._transformations != [  # noqa: SLF001
        Settings._node_parser  # noqa: SLF001
    ]:
        logger.warning(
            "Settings.transformations is not used: pass transformations= to E2GraphRAGIndex, which "
            "otherwise splits texts itself"
        )
    parser = Settings._node_parser  # noqa: SLF001 - the property would create a parser
    if parser is None or has_chunk_size:
        return
    changed = [
        f"Settings.{name}={getattr(parser, name)}"
        for name in _SIZES
        if hasattr(parser, name)
        and getattr(parser, name) != SentenceSplitter.model_fields[name].default
    ]
    if not changed and not isinstance(parser, SentenceSplitter):
        changed = [f"Settings.node_parser={type(parser).__name__}()"]
    if changed:
        logger.warning(
            "%s not used: E2GraphRAGIndex makes chunks of at most %s tokens for its summary trees, "
            "and embeds them in windows. Pass "
            "settings=IndexSettings(chunk_size=..., chunk_overlap=...) to E2GraphRAGIndex to "
            "change this",
            f"{' and '.join(changed)} {'are' if len(changed) > 1 else 'is'}",
            f"{used:,}",
        )
