"""Runs the fake OpenAI server of ../shared with hashed vectors: its model takes seconds to load."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from e2graphrag_integrations import HashingEmbedder
from e2graphrag_integrations.protocols import FloatArray

SCRIPT = Path(__file__).resolve().parents[2] / "shared" / "tools" / "openai_stub.py"


class HashingModel:
    """Has the method of a sentence-transformers model that the server calls."""

    def __init__(self) -> None:
        self.embedder = HashingEmbedder(384)

    def encode(self, texts: list[str], **_unused: Any) -> FloatArray:
        return self.embedder.embed(texts)


def main() -> None:
    sys.path.insert(0, str(SCRIPT.parent))
    import openai_stub  # type: ignore[import-not-found] # not part of the repository

    def load(server: Any) -> None:
        server.model = HashingModel()

    openai_stub.Server.load = load
    openai_stub.main()


if __name__ == "__main__":
    main()
