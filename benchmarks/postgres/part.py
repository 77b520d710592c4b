"""The arguments of a part of `make bench-postgres`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from postgres_server import PostgresServer


@dataclass(frozen=True)
class Part:
    """The arguments of a part.

    Attributes:
        server: A server that only this part uses; `server.url` names its database.
        folder: A temporary folder that is empty. Search indexes are cached in `folder / "cache"`.
        indexes: A folder with ready indexes of `scale.py`, such as `100000.e2g`, and `real.npy`;
            None if `short`.
        short: Whether to only check that the part works, in a few seconds.
    """

    server: PostgresServer
    folder: Path
    indexes: Path | None = None
    short: bool = False
