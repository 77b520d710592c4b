"""Names of a package that are imported from its modules on first use."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from typing import Any


def load_name(package: str, homes: Mapping[str, Collection[str]], name: str) -> Any:
    """Return a public name of a package; for `__getattr__` of the package.

    Args:
        package: The package.
        homes: The names that each module of the package defines, by the module's relative name.
        name: The name.

    Raises:
        AttributeError: If no module defines the name.
    """
    for home, names in homes.items():
        if name in names:
            return getattr(importlib.import_module(f"{package}.{home}"), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
