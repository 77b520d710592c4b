"""A guard for subprocesses that must not use the network."""

from __future__ import annotations

NO_NETWORK = """
import os, socket, sys

def _refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        with open(os.environ["NETWORK_ATTEMPTS"], "a") as file:
            file.write(f"{event} {arguments}\\n")
        raise OSError(f"no network in tests: {event} {arguments}")

sys.addaudithook(_refuse)
"""
"""Content of a `sitecustomize.py`. Its audit hook also sees connections made below Python's socket
module. It records them in the file that the environment variable NETWORK_ATTEMPTS names."""
