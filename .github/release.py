"""Check a release, or print its section of the changelog.

python .github/release.py check v0.2.0   # tag, version, changelog and CITATION.cff agree
python .github/release.py notes 0.2.0    # the section of CHANGELOG.md
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def version() -> str:
    """Return the version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["project"]["version"])


def notes(number: str) -> str:
    """Return the text below the heading of a version in the changelog, or "" without one."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = rf"^## \[{re.escape(number)}\] - \d{{4}}-\d\d-\d\d$"
    found = re.search(rf"{heading}\n(.*?)(?=^## |^\[|\Z)", changelog, re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""


def problems(tag: str) -> list[str]:
    """Return the reasons why a tag cannot be released."""
    number = version()
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    found = []
    if tag != f"v{number}":
        found.append(f"the tag is {tag}, but the version in pyproject.toml is {number}")
    if not notes(number):
        found.append(f"CHANGELOG.md has no section '## [{number}] - YYYY-MM-DD' with text")
    if not re.search(rf"^version: {re.escape(number)}$", citation, re.MULTILINE):
        found.append(f"the version in CITATION.cff is not {number}")
    if not re.search(r"^date-released: \d{4}-\d\d-\d\d$", citation, re.MULTILINE):
        found.append("CITATION.cff has no date-released")
    return found


def main() -> None:
    """Run the command in the arguments."""
    command, argument = sys.argv[1:]
    if command == "check":
        if found := problems(argument):
            raise SystemExit("\n".join(found))
        print(f"{argument} can be released")
    else:
        print(notes(argument))


if __name__ == "__main__":
    main()
