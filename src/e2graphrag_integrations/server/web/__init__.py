"""The JSON API and the page of `e2graphrag serve`."""

from __future__ import annotations

from e2graphrag_integrations.server.web.answering.options import AnswerOptions
from e2graphrag_integrations.server.web.app import make_app, serve
from e2graphrag_integrations.server.web.options import Client, Limits, WebOptions, read_tokens

__all__ = ["AnswerOptions", "Client", "Limits", "WebOptions", "make_app", "read_tokens", "serve"]
