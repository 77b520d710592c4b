"""What is published beside the package itself: bill of materials, MCP registry, other names."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import e2graphrag_integrations as package

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = PROJECT["version"]
SOURCE = Path(package.__file__).parent
ALIASES = {
    "langchain-e2graphrag": ("langchain", "langchain_e2graphrag"),
    "llama-index-retrievers-e2graphrag": ("llama-index", "llama_index.retrievers.e2graphrag"),
}
ACTION = re.compile(r"uses: (?!\./)\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def test_the_bill_of_materials_lists_what_is_required_and_contained():
    bill = runpy.run_path(str(ROOT / "packaging" / "sbom.py"))["bill"](ROOT, PROJECT)
    required = {one["name"]: one for one in bill["components"]}
    assert required["numpy"]["scope"] == "required"
    assert required["openai"]["scope"] == "optional"
    assert len(required) >= len(PROJECT["dependencies"]) + 10
    assert PROJECT["name"] not in required
    contained = {one["name"]: one for one in bill["metadata"]["component"]["components"]}
    models = {one.name for one in (SOURCE / "models").iterdir() if (one / "README.md").exists()}
    assert models <= contained.keys()
    script = contained["cytoscape"]
    content = (SOURCE / "server" / "web" / "page" / "vendor" / "cytoscape.min.js").read_bytes()
    assert script["hashes"][0]["content"] == hashlib.sha256(content).hexdigest()
    again = runpy.run_path(str(ROOT / "packaging" / "sbom.py"))["bill"](ROOT, PROJECT)
    assert json.dumps(again) == json.dumps(bill)


def test_every_bundled_part_has_its_license():
    vendored = SOURCE / "server" / "web" / "page" / "vendor"
    for folder in (*(SOURCE / "models").glob("*_sm"), vendored):
        assert list(folder.glob("LICENSE*")), folder
    for pattern in PROJECT["license-files"]:
        assert list(ROOT.glob(pattern)), pattern


def test_the_mcp_registry_finds_the_package():
    server = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"<!-- mcp-name: {server['name']} -->" in readme
    assert len(server["description"]) <= 100
    [listed] = server["packages"]
    assert (listed["identifier"], listed["version"]) == (PROJECT["name"], VERSION)
    assert server["version"] == VERSION
    assert listed["runtimeArguments"][0]["value"].endswith(f"=={VERSION}")
    assert listed["packageArguments"][0]["value"] == "mcp"
    assert listed["identifier"] in PROJECT["scripts"]  # the command that `uvx` runs


@pytest.mark.parametrize("name", ALIASES)
def test_packages_under_other_names_have_the_same_version(name):
    alias = tomllib.loads((ROOT / "packaging" / name / "pyproject.toml").read_text("utf-8"))
    extra, _ = ALIASES[name]
    assert alias["project"]["name"] == name
    assert alias["project"]["version"] == VERSION
    assert alias["project"]["dependencies"] == [f"{PROJECT['name']}[{extra}]=={VERSION}"]
    assert alias["project"]["requires-python"] == PROJECT["requires-python"]


def test_workflows_name_actions_by_commit_hash():
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        for line in file.read_text(encoding="utf-8").splitlines():
            if "uses:" in line and "uses: ./" not in line:
                assert ACTION.search(line), f"{file.name}: {line}"


def unclear_deprecations(code: str) -> list[int]:
    """Return the lines of deprecation warnings that do not name the version of the removal."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") == "warn"
        and "DeprecationWarning" in ast.dump(node)
        and not re.search(r"removed in version \d+\.\d+.*: use ", ast.unparse(node.args[0]))
    ]


def test_deprecation_warnings_name_the_version_and_the_replacement():
    bad = "import warnings\nwarnings.warn('old is deprecated', DeprecationWarning)"
    good = (
        "import warnings\n"
        "warnings.warn('old is deprecated and will be removed in version 0.4: use new', "
        "DeprecationWarning, stacklevel=2)"
    )
    assert unclear_deprecations(bad) == [2]
    assert unclear_deprecations(good) == []
    for path in SOURCE.rglob("*.py"):
        code = path.read_text(encoding="utf-8")
        assert "DeprecationWarning" not in code or unclear_deprecations(code) == [], path


@pytest.mark.slow
def test_wheels_are_built_installed_and_imported(tmp_path):
    pytest.importorskip("llama_index.core")
    pytest.importorskip("langchain_core")
    pytest.importorskip("build")
    wheels, installed = tmp_path / "wheels", tmp_path / "installed"
    for folder in (ROOT, *(ROOT / "packaging" / name for name in ALIASES)):
        command = [sys.executable, "-m", "build", "--wheel", "--outdir", wheels, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    [own] = wheels.glob("e2graphrag_integrations-*.whl")
    with zipfile.ZipFile(own) as archive:
        folder = f"e2graphrag_integrations-{VERSION}.dist-info"
        bill = json.loads(archive.read(f"{folder}/sboms/e2graphrag-integrations.cdx.json"))
        assert bill["metadata"]["component"]["version"] == VERSION
        licenses = [name for name in archive.namelist() if f"{folder}/licenses/" in name]
        assert len(licenses) >= 5
    files = [str(one) for one in wheels.glob("*.whl")]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*command, installed, *files], check=True)
    for name, (_, module) in ALIASES.items():
        code = (
            f"import {module} as module, e2graphrag_integrations\n"
            "print(module.__file__, e2graphrag_integrations.__file__)\n"
            "assert all(getattr(module, name) for name in module.__all__)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"
        assert done.stdout.count(str(installed)) == 2
