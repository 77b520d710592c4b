"""The vendored files of the page are those that their list names."""

from __future__ import annotations

import hashlib
import re

from e2graphrag_integrations.server.web.app import PAGE


def test_vendored_files_are_unchanged_and_have_a_license():
    folder = PAGE / "vendor"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \|.*`(LICENSE[^`]+)` \| `(\w{64})` \|$", listed, re.MULTILINE)
    for name, license_, digest in rows:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
        assert (folder / license_).read_text(encoding="utf-8")
    named = {one for row in rows for one in row[:2]}
    assert {path.name for path in folder.iterdir()} == {"README.md", *named}
