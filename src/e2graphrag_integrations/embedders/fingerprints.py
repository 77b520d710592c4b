"""Fingerprints: what tells one embedder, extractor or summarizer from another.

An object may say its own (`fingerprint: str`). An embedder that does not is known by its vectors
for three fixed strings. Design asks for a hash of the rounded vectors; rounding flips at its own
borders from one machine's arithmetic to another's, so the vectors themselves are kept, in half
precision, and compared by cosine.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.protocols import Embedder

_PROBES = ("The quick brown fox.", "Who wrote the letter to Elizabeth?", "量子力学 2026")
_PREFIX = "probe:"
_SAME_COSINE = 0.999

_SECRET = ("key", "token", "secret", "password", "credential")
_TRANSPORT = ("timeout", "retries", "url", "base", "header", "client", "callback", "verbose")
"""Words in the names of a model's settings that do not change what it says."""

_COUNT = "tokens"
"""How the names of settings end that do, though a word above is in them: `max_tokens`."""


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


def output_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those settings of a model that shape its answers: no secrets, nothing of transport."""
    return {
        name: value
        for name, value in settings.items()
        if name.endswith(_COUNT)
        or not any(word in name.lower() for word in (*_SECRET, *_TRANSPORT))
    }


def settings_digest(settings: Any) -> str:
    """Return 16 hex digits for settings; of a value that is no JSON only its class counts."""
    # Not its repr, which may hold an address in memory or a secret.
    text = json.dumps(settings, sort_keys=True, default=lambda value: type(value).__name__)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
