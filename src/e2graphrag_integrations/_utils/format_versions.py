"""The version of what is stored: only the current one is read."""

from __future__ import annotations

from e2graphrag_integrations.errors import SchemaVersionError


def check_format_version(
    where: str, found: object, supported: int, advice: str = "index the documents again"
) -> None:
    """Check that stored data have the supported format version.

    Args:
        where: The place of the data, for the error message.
        found: The version there.
        supported: The version that this package reads and writes.
        advice: What to do with data of another version.

    Raises:
        SchemaVersionError: If the versions differ.
    """
    if found != supported:
        raise SchemaVersionError(
            f"{where} has format version {found}, but this version of e2graphrag-integrations "
            f"reads only version {supported}: {advice}"
        )
