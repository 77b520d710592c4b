r"""Build the package, install it with each extra in a clean environment, try it, and measure sizes.

    python benchmarks/install_sizes.py --python python3.11 --python python3.13 \
        --out benchmarks/results/install_sizes.json

The wheel is built from the source distribution of the last commit. With the first Python, the core
and each extra are installed, with the others only the core. The sizes are those of the downloaded
files, and of the installed ones without bytecode. All versions are those of constraints.txt.
`--only zh,files` measures only these extras, and keeps the others in the result file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path
from typing import Any

from runs import parser_of, this_run, write_result

ROOT = Path(__file__).parents[1]
PACKAGE = "e2graphrag_integrations"
CORE = "core"
ALL = "all"
WITH_TORCH = {"local", ALL}
NOT_IN_ALL = {"ray"}
_MEGABYTE = 1e6


@dataclass(frozen=True)
class Built:
    """The built distributions.

    Attributes:
        wheel: The wheel.
        sdist: The source distribution.
        commit: The commit.
        extras: The names of the extras in the metadata of the wheel.
    """

    wheel: Path
    sdist: Path
    commit: str
    extras: tuple[str, ...]


def build(folder: Path) -> Built:
    """Build the last commit, and check the contents and the metadata."""
    clone, dist = folder / "clone", folder / "dist"
    _run("git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), clone)
    _run(sys.executable, "-m", "build", "--outdir", dist, clone)
    [wheel], [sdist] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    _run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    tracked = _run("git", "-C", clone, "ls-files", "src", "examples/data").splitlines()
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
        [name] = [name for name in packed if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    expected = {
        re.sub(r"^src/|^examples(?=/data/)", lambda m: "" if m[0] == "src/" else PACKAGE, path)
        for path in tracked
    }
    if missing := expected - packed:
        raise SystemExit(f"the wheel lacks {sorted(missing)}")
    if found := re.findall(r"\]\((?!https?:|#)[^)]*|\$HFPR\w*", str(metadata.get_payload())):
        raise SystemExit(f"the README on PyPI has relative links: {found}")
    with tarfile.open(sdist) as archive:
        paths = {name.partition("/")[2] for name in archive.getnames()}
    if missing := {*tracked, "constraints.txt", "CITATION.cff", "README.md"} - paths:
        raise SystemExit(f"the source distribution lacks {sorted(missing)}")
    commit = _run("git", "-C", clone, "rev-parse", "--short=7", "HEAD")
    shutil.rmtree(clone)
    return Built(wheel, sdist, commit, tuple(metadata.get_all("Provides-Extra", [])))


def measure(built: Built, python: str, extra: str, folder: Path) -> dict[str, Any]:
    """Install the core or an extra in a clean environment, try it, and return its sizes."""
    environment, downloads = folder / "environment", folder / "downloads"
    _run(python, "-m", "venv", environment)
    interpreter = environment / "bin" / "python"
    _run(interpreter, "-m", "pip", "install", "--quiet", "--upgrade", "pip>=25.1")
    before = _installed_sizes(environment)
    target = str(built.wheel) if extra == CORE else f"{built.wheel}[{extra}]"
    wanted = ["torch", target] if extra in WITH_TORCH else [target]
    constrained = ["--constraint", ROOT / "constraints.txt", "--only-binary", ":all:"]
    pip = [interpreter, "-m", "pip"]
    _run(*pip, "download", "--quiet", *constrained, "--dest", downloads, *wanted)
    offline = ["--no-index", "--find-links", downloads, "--no-compile"]
    _run(*pip, "install", "--quiet", *constrained, *offline, *wanted)
    _run(*pip, "check")
    installed = _installed_sizes(environment) - before
    _check_packages(extra, set(installed))
    features = _extras_of(extra, built.extras)
    print(_run(interpreter, "-P", ROOT / ".github" / "smoke_test.py", *features, cwd=folder))
    files = [*downloads.iterdir()]
    result = {
        "commit": built.commit,
        "packages": len(files),
        "download MB": _megabytes(sum(file.stat().st_size for file in files)),
        "installed MB": _megabytes(installed.total()),
        "installed MB by package": {
            name: _megabytes(size) for name, size in installed.most_common() if size >= _MEGABYTE
        },
        "tried": [CORE, *features],
    }
    shutil.rmtree(environment)
    shutil.rmtree(downloads)
    return result


def _extras_of(extra: str, extras: Sequence[str]) -> list[str]:
    """Return the extras whose features an installation has."""
    if extra == ALL:
        return [name for name in extras if name != ALL and name not in NOT_IN_ALL]
    return [] if extra == CORE else [extra]


def _check_packages(extra: str, packages: set[str]) -> None:
    if "torch" in packages and extra not in WITH_TORCH:
        raise SystemExit(f"{extra} installs torch")
    if found := packages & NOT_IN_ALL - {extra}:
        raise SystemExit(f"{extra} installs {found}")
    if found := {name for name in packages if name.startswith(("nvidia", "triton"))}:
        raise SystemExit(f"{extra} installs CUDA libraries: {found}")


def _installed_sizes(environment: Path) -> Counter[str]:
    """Return the bytes of each installed package, from the lists of its files."""
    [site] = environment.glob("lib/python*/site-packages")
    sizes: Counter[str] = Counter()
    for record in site.glob("*.dist-info/RECORD"):
        name = record.parent.name.partition("-")[0].lower().replace("_", "-")
        sizes[name] = sum(_sizes(site, record.read_text(encoding="utf-8")))
    return sizes


def _sizes(site: Path, record: str) -> Iterator[int]:
    for line in record.splitlines():
        file = site / line.rsplit(",", 2)[0].strip('"')
        if file.is_file() and file.suffix != ".pyc":
            yield file.stat().st_size


def _megabytes(size: int) -> float:
    return round(size / _MEGABYTE, 1)


def _run(*command: object, cwd: Path | None = None) -> str:
    """Run a command, and return its output."""
    # No package may come from elsewhere.
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout.strip()


def measure_all(pythons: Sequence[str], only: Sequence[str]) -> Mapping[str, Any]:
    """Return the sizes of the distributions, and of each installation by Python and extra."""
    sizes: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = build(folder)
        for number, python in enumerate(pythons):
            version = _run(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
            rows = sizes.setdefault(version, {})
            for extra in [CORE, *([] if number else built.extras)]:
                if not only or extra in only:
                    rows[extra] = measure(built, python, extra, folder)
                    print(version, extra, rows[extra], flush=True)
        distributions = {
            "wheel MB": _megabytes(built.wheel.stat().st_size),
            "source distribution MB": _megabytes(built.sdist.stat().st_size),
        }
    return this_run() | distributions | {"sizes": sizes}


def main() -> None:
    parser = parser_of(__doc__, data=False)
    parser.add_argument("--python", action="append", help="a Python; the first measures all extras")
    parser.add_argument("--only", default="", help="extras to measure, separated by commas")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    result = dict(measure_all(options.python or [sys.executable], only))
    if only and options.out and options.out.exists():
        old = json.loads(options.out.read_text(encoding="utf-8"))["sizes"]
        result["sizes"] = {
            version: old.get(version, {}) | result["sizes"].get(version, {})
            for version in {**old, **result["sizes"]}
        }
    write_result(result, options.out)


if __name__ == "__main__":
    main()
