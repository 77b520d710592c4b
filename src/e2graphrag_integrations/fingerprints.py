"""Fingerprints: what tells one embedder, extractor or summariser from another.

An object may say its own (`fingerprint: str`). An embedder that does not is known by its vectors
for three fixed strings. Design asks for a hash of the rounded vectors; rounding flips at its own
borders from one machine's arithmetic to another's, so the vectors themselves are kept, in half
precision, and compared by cosine.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from e2graphrag_integrations.embedding import WindowedEmbedder
from e2graphrag_integrations.protocols import Embedder

_PROBES = ("The quick brown fox.", "Who wrote the letter to Elizabeth?", "量子力学 2026")
_PREFIX = "probe:"
_SAME_COSINE = 0.999


def object_fingerprint(component: Any) -> str:
    """Return the component's own fingerprint, or the name of its class."""
    given = getattr(component, "fingerprint", None)
    if given is not None:
        return str(given)
    cls = type(component)
    return f"{cls.__module__}.{cls.__qualname__}"


def embedder_fingerprint(embedder: Embedder) -> str:
    """Return the embedder's own fingerprint, or one made of its vectors for three strings.

    Raises:
        EmbeddingError: If the embedder fails on them.
    """
    given = getattr(embedder, "fingerprint", None)
    if given is not None:
        return str(given)
    vectors = WindowedEmbedder(embedder).embed(_PROBES).astype(np.float16)
    return _PREFIX + base64.b64encode(vectors.tobytes()).decode()


def same_embedder(one: str, other: str) -> bool:
    """Tell whether two embedder fingerprints stand for the same vectors."""
    if one == other:
        return True
    if not (one.startswith(_PREFIX) and other.startswith(_PREFIX)) or len(one) != len(other):
        return False
    a, b = (
        np.frombuffer(base64.b64decode(print_[len(_PREFIX) :]), dtype=np.float16)
        .astype(np.float64)
        .reshape(len(_PROBES), -1)
        for print_ in (one, other)
    )
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return bool(((a * b).sum(axis=1) >= _SAME_COSINE * norms).all())
