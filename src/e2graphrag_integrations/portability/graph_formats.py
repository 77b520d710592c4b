"""The formats of exported graphs, and the suffixes of file names that decide between them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from e2graphrag_integrations._utils.validation import check_choice
from e2graphrag_integrations.errors import InvalidInputError

GraphFormat = Literal["neo4j-csv", "graphml", "gexf", "json", "parquet"]
FORMATS: tuple[GraphFormat, ...] = get_args(GraphFormat)

FOLDER_FORMAT: GraphFormat = "neo4j-csv"
"""The format of a path without a suffix."""

FILE_FORMATS: Mapping[str, GraphFormat] = {
    ".graphml": "graphml",
    ".gexf": "gexf",
    ".json": "json",
}
"""The formats that are a single file, by suffix."""

_HINT = (
    f"name a file that ends in {', '.join(FILE_FORMATS)}, or a folder without a suffix for CSV "
    "files ('neo4j-csv') or, with the format 'parquet', for Parquet files"
)


def graph_format(path: Path, given: str | None) -> GraphFormat:
    """Return the format of an export: the given one, or else that of the suffix of its path.

    A folder whose name has a dot needs a given format.

    Raises:
        InvalidInputError: If the format or the suffix is unknown, or both contradict each other.

    >>> graph_format(Path("novels.gexf"), None), graph_format(Path("novels"), None)
    ('gexf', 'neo4j-csv')
    """
    suffix = path.suffix.lower()
    by_suffix = FILE_FORMATS.get(suffix)
    if given is None:
        if by_suffix is None and suffix:
            raise InvalidInputError(
                f"{path.name} has the suffix {suffix!r}, which is no format of a graph: {_HINT}"
            )
        return by_suffix or FOLDER_FORMAT
    check_choice("format", given, FORMATS)
    found = next(one for one in FORMATS if one == given)
    if by_suffix not in (None, found):
        raise InvalidInputError(f"{path.name} cannot have the format {given!r}: {_HINT}")
    return found
