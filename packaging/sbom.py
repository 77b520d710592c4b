"""The bill of materials of the wheel (PEP 770), in the format CycloneDX 1.6.

It lists what the wheel contains from others or with another license, and the packages that it
requires. Versions of required packages are ranges, because pip chooses them later.
"""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

SOURCE = Path("src") / "e2graphrag_integrations"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_VENDORED = re.compile(r"Cytoscape\.js ([\d.]+).*`([0-9a-f]{64})`")
_NAMESPACE = uuid.UUID("5f1cbe63-5b0c-5a3e-9d7e-0f6a5f6d2a10")


def bill(root: Path, project: dict[str, Any]) -> dict[str, Any]:
    """Return the bill of materials.

    Args:
        root: The folder of the checkout.
        project: `name`, `version`, `license`, `dependencies`, and `optional-dependencies`, as in
            the section `project` of `pyproject.toml`.
    """
    name, version = project["name"], project["version"]
    own = f"pkg:pypi/{name}@{version}"
    required = [_package(one, "required") for one in project["dependencies"]]
    known = {one["bom-ref"] for one in required}
    for requirements in project["optional-dependencies"].values():
        for requirement in requirements:
            package = _package(requirement, "optional")
            if package["name"] != name and package["bom-ref"] not in known:
                known.add(package["bom-ref"])
                required.append(package)
    contained = _contained(root)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, own)}",
        "version": 1,
        "metadata": {
            "component": {
                "bom-ref": own,
                "type": "library",
                "name": name,
                "version": version,
                "purl": own,
                "licenses": [{"expression": project["license"]}],
                "components": contained,
            }
        },
        "components": required,
        "dependencies": [
            {
                "ref": own,
                "dependsOn": [one["bom-ref"] for one in required if one["scope"] == "required"],
            }
        ],
    }


def _package(requirement: str, scope: str) -> dict[str, Any]:
    found = _NAME.match(requirement)
    if found is None:
        message = f"{requirement!r} is no requirement"
        raise ValueError(message)
    name = re.sub(r"[-_.]+", "-", found[0]).lower()
    return {
        "bom-ref": f"pkg:pypi/{name}",
        "type": "library",
        "name": name,
        "purl": f"pkg:pypi/{name}",
        "scope": scope,
        "properties": [{"name": "python:requirement", "value": requirement}],
    }


def _contained(root: Path) -> list[dict[str, Any]]:
    """Return the parts of the wheel that are from others or have another license."""
    models = root / SOURCE / "models"
    meta = json.loads((models / "en_e2g_sm" / "meta.json").read_text("utf-8"))
    chinese = (models / "zh_e2g_sm" / "README.md").read_text("utf-8")  # "# zh_e2g_sm 0.1.0"
    vendored = root / SOURCE / "server" / "web" / "page" / "vendor" / "README.md"
    found = _VENDORED.search(vendored.read_text("utf-8"))
    if found is None:
        message = f"{vendored} does not name the version of Cytoscape.js"
        raise ValueError(message)
    return [
        {
            "bom-ref": f"pkg:npm/cytoscape@{found[1]}",
            "type": "library",
            "name": "cytoscape",
            "version": found[1],
            "purl": f"pkg:npm/cytoscape@{found[1]}",
            "licenses": [{"license": {"id": "MIT"}}],
            "hashes": [{"alg": "SHA-256", "content": found[2]}],
        },
        _model("en_e2g_sm", meta["version"], "CC-BY-SA-4.0"),
        _model("zh_e2g_sm", chinese.split()[2], "CC-BY-SA-4.0 AND Apache-2.0"),
        *(
            {"bom-ref": f"text:{name}", "type": "data", "name": name, "copyright": "public domain"}
            for name in ("the_time_machine.txt", "sanguo_yanyi.txt")
        ),
    ]


def _model(name: str, version: str, expression: str) -> dict[str, Any]:
    return {
        "bom-ref": f"model:{name}@{version}",
        "type": "machine-learning-model",
        "name": name,
        "version": version,
        "licenses": [{"expression": expression}],
    }
