"""The official OpenAI client, made at its first use."""

from __future__ import annotations

from typing import Any

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations.errors import MissingDependencyError


class OpenAIClients:
    """Makes the client of an OpenAI-compatible server, once for blocking and once for async code.

    The client's own retries are disabled.

    Args:
        user: Who needs the client, for the error message.
        base_url: URL of the server; None for the client's default.
        api_key: None means the client's environment variable.
        timeout: Seconds per call.
    """

    def __init__(
        self, user: str, *, base_url: str | None, api_key: str | None, timeout: float
    ) -> None:
        self._user = user
        self._options: Any = {"base_url": base_url, "api_key": api_key, "timeout": timeout}
        self._made: dict[str, Any] = {}
        self._lock = process_lock()

    def blocking(self) -> Any:
        """Return the client for threads.

        Raises:
            MissingDependencyError: If the `openai` package is not installed.
        """
        return self._client("OpenAI")

    def asynchronous(self) -> Any:
        """Return the client for one event loop.

        Raises:
            MissingDependencyError: If the `openai` package is not installed.
        """
        return self._client("AsyncOpenAI")

    def close(self) -> None:
        """Close the connections of the blocking client."""
        client = self._made.pop("OpenAI", None)
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close the connections of the asynchronous client, in its event loop."""
        client = self._made.pop("AsyncOpenAI", None)
        if client is not None:
            await client.close()

    def _client(self, name: str) -> Any:
        with self._lock:
            if name not in self._made:
                try:
                    import openai
                except ImportError as error:
                    raise MissingDependencyError(
                        f"{self._user} needs the openai client: "
                        "pip install 'e2graphrag-integrations[openai]'"
                    ) from error
                self._made[name] = getattr(openai, name)(max_retries=0, **self._options)
            return self._made[name]
