"""Puts the bill of materials into the wheel; hatchling runs it."""

from __future__ import annotations

import json
import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SBOMHook(BuildHookInterface):  # type: ignore[type-arg, misc]
    """Adds `.dist-info/sboms/e2graphrag-integrations.cdx.json`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file, which `finalize` removes."""
        del version
        core = self.metadata.core
        make = runpy.run_path(str(Path(self.root) / "packaging" / "sbom.py"))["bill"]
        bill = make(
            Path(self.root),
            {
                "name": core.name,
                "version": self.metadata.version,
                "license": core.license_expression,
                "dependencies": core.dependencies,
                "optional-dependencies": core.optional_dependencies,
            },
        )
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / f"{core.name}.cdx.json"
        file.write_text(json.dumps(bill, indent=2), encoding="utf-8")
        build_data["sbom_files"].append(str(file))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the file."""
        del version, build_data, artifact_path
        self._folder.cleanup()
