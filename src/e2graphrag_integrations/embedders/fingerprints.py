"""Fingerprints that identify embedders and other models.

A component may declare its own `fingerprint: str`. An embedder without one is identified by its
vectors for three fixed strings. The vectors are stored in half precision and compared by cosine:
a hash of rounded vectors would differ between machines whose floating-point results fall on
opposite sides of a rounding boundary.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.protocols import Embedder, object_fingerprint

_PROBES = ("The quick brown fox.", "Who wrote the letter to Elizabeth?", "量子力学 2026")
_PREFIX = "probe:"
_MIN_COSINE = 0.999
"""Two embedders are the same if each pair of probe vectors has at least this cosine."""

_SECRET = ("key", "token", "secret", "password", "credential")
_TRANSPORT = ("timeout", "retries", "url", "base", "header", "client", "callback", "verbose")
"""Settings whose names contain one of these substrings do not affect a model's output."""

_NAME_ATTRIBUTES = (
    *("model_name", "model", "model_id", "deployment_name", "deployment", "repo_id", "fingerprint"),
)
"""Attributes with the name of a model, in the classes of the frameworks."""

_UNKNOWN = "unknown"
"""The name of a model in LlamaIndex that has none."""

_LIMIT_SUFFIX = "tokens"
"""Settings such as `max_tokens` affect the output even though their names contain `token`."""


def embedder_fingerprint(embedder: Embedder) -> str:
    """Return the embedder's `fingerprint`, or one computed from its vectors for three fixed texts.

    Raises:
        EmbeddingError: If the embedder fails on the probes.
    """
    if getattr(embedder, "fingerprint", None) is not None:
        return object_fingerprint(embedder)
    return probe_fingerprint(embedder)


def probe_fingerprint(embedder: Embedder) -> str:
    """Return a fingerprint computed from an embedder's vectors for three fixed texts.

    Raises:
        EmbeddingError: If the embedder fails on the probes.
    """
    vectors = WindowedEmbedder(embedder).embed(_PROBES).astype(np.float16)
    return _PREFIX + base64.b64encode(vectors.tobytes()).decode()


def same_embedder(one: str, other: str) -> bool:
    """Return whether two fingerprints identify the same embedder."""
    if one == other:
        return True
    if not (is_probe(one) and is_probe(other)) or len(one) != len(other):
        return False
    a, b = (
        np.frombuffer(base64.b64decode(fingerprint[len(_PREFIX) :]), dtype=np.float16)
        .astype(np.float64)
        .reshape(len(_PROBES), -1)
        for fingerprint in (one, other)
    )
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return bool(((a * b).sum(axis=1) >= _MIN_COSINE * norms).all())


def is_probe(fingerprint: str) -> bool:
    """Return whether a fingerprint was computed from vectors."""
    return fingerprint.startswith(_PREFIX)


def describe_fingerprint(fingerprint: str, name: str | None = None) -> str:
    """Return a fingerprint for an error message; vectors become a short checksum.

    Args:
        fingerprint: The fingerprint.
        name: The name of a model that its vectors identify, if it is known.
    """
    if not is_probe(fingerprint):
        return fingerprint
    digest = hashlib.sha256(fingerprint.encode()).hexdigest()[:8]
    return f"{name or 'model with unknown name'} (vectors {digest})"


def readable_name(embedder: Any) -> str:
    """Return the class and the model name of an embedder, for an error message."""
    name, model = type(_wrapped_model(embedder)).__name__, model_name(embedder)
    return f"{name}({model})" if model else name


def model_name(embedder: Any) -> str | None:
    """Return the name of an embedder's model, or its fingerprint; None if it has neither."""
    wrapped = _wrapped_model(embedder)
    names = (getattr(wrapped, name, None) for name in _NAME_ATTRIBUTES)
    known = (name for name in names if isinstance(name, str) and name not in ("", _UNKNOWN))
    return next(known, None)


def _wrapped_model(embedder: Any) -> Any:
    inner = getattr(embedder, "model", None)
    return embedder if inner is None or isinstance(inner, str) else inner


def output_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model settings that affect its output, without secrets and transport options."""
    return {
        name: value
        for name, value in settings.items()
        if name.endswith(_LIMIT_SUFFIX)
        or not any(word in name.lower() for word in (*_SECRET, *_TRANSPORT))
    }


def settings_digest(settings: Any) -> str:
    """Return 16 hex digits that identify settings.

    A value that JSON cannot represent contributes only its class name: its repr may contain a
    memory address or a secret.
    """
    text = json.dumps(settings, sort_keys=True, default=lambda value: type(value).__name__)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
