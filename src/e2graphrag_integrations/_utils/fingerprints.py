"""The fingerprint of a component: a string that changes whenever its output changes."""

from __future__ import annotations

from typing import Any


def object_fingerprint(component: Any) -> str:
    """Return the component's `fingerprint`, or its qualified class name."""
    declared = getattr(component, "fingerprint", None)
    if declared is not None:
        return str(declared)
    cls = type(component)
    return f"{cls.__module__}.{cls.__qualname__}"
