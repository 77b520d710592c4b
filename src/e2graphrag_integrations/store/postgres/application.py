"""The name by which a connection tells the server, and other users of it, which process it is."""

from __future__ import annotations

import os
import re
import socket

from e2graphrag_integrations.store.database import Writer, program_name

_MAX_NAME = 63
"""Maximum length of an application's name."""

_NAME = re.compile(r"e2graphrag (.*) process (\d{1,9}) on (.*)", re.DOTALL)


def application_name() -> str:
    """Return the name of this process."""
    name = f"e2graphrag {program_name()[:20]} process {os.getpid()} on {socket.gethostname()}"
    return name.encode("ascii", "replace").decode()[:_MAX_NAME]


def named_writer(name: str) -> Writer:
    """Return the process that a name describes; the URL of a user may set another name."""
    found = _NAME.fullmatch(name)
    if found is None:
        return Writer(program=name)
    program, pid, host = found.groups()
    return Writer(int(pid), program, host)
