"""The state of a running application: the index, the limits and the readers of the clients."""

from __future__ import annotations

from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.scoped_reader import ScopedReader
from e2graphrag_integrations.server.web.access import Access, Caller
from e2graphrag_integrations.server.web.limits import Admission
from e2graphrag_integrations.server.web.options import WebOptions
from e2graphrag_integrations.server.web.problems import Explainer, Problem
from e2graphrag_integrations.views.documents import Readable


class Service:
    """What the operations of one application share.

    Args:
        rag: The index.
        options: Clients and limits.
    """

    def __init__(self, rag: E2GraphRAG, options: WebOptions) -> None:
        self.rag = rag
        self.options = options
        self.access = Access(options)
        self.admission = Admission(options.limits)
        self.explainer = Explainer(rag.path)
        self._scopes: dict[str, ScopedReader] = {
            one.name: rag.scoped(one.where) for one in options.clients if one.where is not None
        }

    def reader(self, caller: Caller) -> Readable:
        """Return the index as a caller sees it."""
        return self._scopes[caller.name] if caller.is_scoped else self.rag

    def check_rights(self, caller: Caller, rights: str) -> None:
        """Check that a caller may call an operation.

        Raises:
            Problem: If not.
        """
        if rights in ("all", "write") and caller.is_scoped:
            raise Problem(403, "ScopeError", "this token only reads a part of the index")
        if rights == "write":
            if self.options.read_only:
                raise Problem(403, "ReadOnlyError", "the server is read-only")
            if not caller.can_write:
                raise Problem(403, "ReadOnlyError", "this token may only read")

    def close(self) -> None:
        """End the threads."""
        self.admission.close()
