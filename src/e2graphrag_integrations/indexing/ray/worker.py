"""The part of the Ray engine that runs on the workers.

Ray sends this module by value: it must import only the standard library when it is loaded, so that
a node without this package, or without a model, can say so.
"""

from __future__ import annotations

import json
import socket
from typing import Any


class RayWorker:
    """Runs the work of a stage, which it creates when it receives the first slice.

    Args:
        payload: The recipe and the component of the work; see `RayRunner`.
    """

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._work: Any = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a slice, or the error that makes this node unusable."""
        number = int(row["number"])
        try:
            if self._work is None:
                self._work = self._create()
            from e2graphrag_integrations.indexing.stages.work import run_slice

            result = run_slice(self._work, number, json.loads(row["inputs"]))
        except Exception as error:  # noqa: BLE001 - of the component; the driver converts it
            return _row(number, [], {"fatal": _describe(error), "node": _node()})
        report = {"seconds": result.seconds, "usage": dict(result.usage)}
        if result.error is not None:
            report["error"] = _describe(result.error)
        return _row(number, list(result.values), report)

    def _create(self) -> Any:
        from ray import cloudpickle

        recipe, component, factory = cloudpickle.loads(self._payload)
        if factory is not None:
            component = factory()
        return recipe(component)


def _row(number: int, values: list[bytes], report: dict[str, Any]) -> dict[str, Any]:
    return {"number": number, "values": values, "report": json.dumps(report)}


def _describe(error: Exception) -> dict[str, Any]:
    names = [cls.__name__ for cls in type(error).__mro__]
    return {"types": names, "message": str(error) or repr(error)}


def _node() -> str:
    import ray

    context = ray.get_runtime_context()
    address = ray.util.get_node_ip_address()
    return f"{address} ({socket.gethostname()}, Ray node {context.get_node_id()[:8]})"
