"""Writing a property graph as one file: GraphML, GEXF, or JSON that networkx reads.

networkx could write them, but only from a graph that is completely in memory, and its GEXF writer
takes the properties `start` and `end` for times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from e2graphrag_integrations.portability.graph_writer import (
    RELATION_TYPES,
    GraphWriter,
    columns_of,
    converted,
)
from e2graphrag_integrations.portability.property_graph import (
    NODE_LABELS,
    GraphNode,
    GraphRelation,
    PropertyGraph,
    Value,
)

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

_XML_TYPES: Mapping[type, str] = {str: "string", int: "long", float: "double", bool: "boolean"}

Values = Mapping[str, Value | None]


class _OneFile(GraphWriter):
    """A file with the list of all nodes, followed by the list of all relations."""

    def __init__(self, path: Path, graph: PropertyGraph) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._has_relations = False
        columns: dict[str, type] = {}
        for label in NODE_LABELS:
            columns |= columns_of(graph, label)
        self._begin(columns)

    def start_nodes(self, label: str, columns: Mapping[str, type]) -> None:
        """Do nothing: the file has one list of nodes."""

    def write_nodes(self, nodes: Sequence[GraphNode], columns: Mapping[str, type]) -> None:
        """Write the nodes one after the other."""
        for node in nodes:
            properties = node.properties.items()
            self._add_node(
                node, {name: converted(value, columns[name]) for name, value in properties}
            )

    def start_relations(self, label: str) -> None:
        """Begin the only list of relations."""
        del label
        if not self._has_relations:
            self._begin_relations()
        self._has_relations = True

    def write_relations(self, relations: Sequence[GraphRelation]) -> None:
        """Write the relations one after the other."""
        for one in relations:
            self._add_relation(one)

    def _begin(self, columns: Mapping[str, type]) -> None:
        """Write what is before the nodes; `columns` are the properties of all of them."""
        raise NotImplementedError

    def _add_node(self, node: GraphNode, values: Values) -> None:
        raise NotImplementedError

    def _begin_relations(self) -> None:
        raise NotImplementedError

    def _add_relation(self, relation: GraphRelation) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError

    def _write(self, line: str) -> None:
        self._file.write(line + "\n")

    def __exit__(self, *error: object) -> None:
        try:
            if error[0] is None:
                self._end()
        finally:
            self._file.close()


class GraphMLFile(_OneFile):
    """A directed multigraph in GraphML. Characters that XML forbids become U+FFFD."""

    def _begin(self, columns: Mapping[str, type]) -> None:
        self._keys: dict[tuple[str, str], str] = {}
        self._write('<?xml version="1.0" encoding="UTF-8"?>')
        self._write('<graphml xmlns="http://graphml.graphdrawing.org/xmlns">')
        self._declare("node", {"label": str, **columns})
        self._declare("edge", {"label": str, **RELATION_TYPES})
        self._write('<graph edgedefault="directed">')

    def _declare(self, element: str, columns: Mapping[str, type]) -> None:
        for name, kind in columns.items():
            key = self._keys[element, name] = f"d{len(self._keys)}"
            self._write(
                f'<key id="{key}" for="{element}" attr.name={quoteattr(name)} '
                f'attr.type="{_XML_TYPES[kind]}"/>'
            )

    def _add_node(self, node: GraphNode, values: Values) -> None:
        data = self._data("node", {"label": node.label, **values})
        self._write(f"<node id={_attribute(node.id)}>{data}</node>")

    def _begin_relations(self) -> None:
        """Do nothing: nodes and edges are in one list."""

    def _add_relation(self, relation: GraphRelation) -> None:
        ends = f"source={_attribute(relation.source)} target={_attribute(relation.target)}"
        data = self._data("edge", {"label": relation.label, **relation.properties})
        self._write(f"<edge {ends}>{data}</edge>")

    def _end(self) -> None:
        self._write("</graph>\n</graphml>")

    def _data(self, element: str, values: Values) -> str:
        return "".join(
            f'<data key="{self._keys[element, name]}">{_content(value)}</data>'
            for name, value in values.items()
            if value is not None
        )


class GexfFile(_OneFile):
    """A directed multigraph in GEXF 1.2. Characters that XML forbids become U+FFFD."""

    def _begin(self, columns: Mapping[str, type]) -> None:
        self._keys = {name: f"n{number}" for number, name in enumerate(columns)}
        self._count = 0
        self._write('<?xml version="1.0" encoding="UTF-8"?>')
        self._write('<gexf xmlns="http://www.gexf.net/1.2draft" version="1.2">')
        self._write('<graph defaultedgetype="directed" mode="static">')
        self._declare("node", {self._keys[name]: (name, kind) for name, kind in columns.items()})
        self._declare("edge", {"count": ("count", RELATION_TYPES["count"])})
        self._write("<nodes>")

    def _declare(self, element: str, columns: Mapping[str, tuple[str, type]]) -> None:
        self._write(f'<attributes class="{element}" mode="static">')
        for key, (name, kind) in columns.items():
            self._write(
                f'<attribute id="{key}" title={quoteattr(name)} type="{_XML_TYPES[kind]}"/>'
            )
        self._write("</attributes>")

    def _add_node(self, node: GraphNode, values: Values) -> None:
        data = _attvalues({self._keys[name]: value for name, value in values.items()})
        self._write(f'<node id={_attribute(node.id)} label="{node.label}">{data}</node>')

    def _begin_relations(self) -> None:
        self._write("</nodes>\n<edges>")

    def _add_relation(self, relation: GraphRelation) -> None:
        ends = f"source={_attribute(relation.source)} target={_attribute(relation.target)}"
        own = dict(relation.properties)
        weight = own.pop("weight", None)
        weighted = "" if weight is None else f' weight="{weight}"'
        self._write(
            f'<edge id="{self._count}" {ends} label="{relation.label}"{weighted}>'
            f"{_attvalues(own)}</edge>"
        )
        self._count += 1

    def _end(self) -> None:
        self._write("</edges>\n</graph>\n</gexf>")


class JsonFile(_OneFile):
    """Node-link JSON, which `networkx.node_link_graph(data, edges="edges")` reads."""

    def _begin(self, columns: Mapping[str, type]) -> None:
        del columns
        self._separator = ""
        self._file.write('{"directed": true, "multigraph": true, "graph": {}, "nodes": [')

    def _add_node(self, node: GraphNode, values: Values) -> None:
        known = {name: value for name, value in values.items() if value is not None}
        self._add({"id": node.id, "label": node.label, **known})

    def _begin_relations(self) -> None:
        self._separator = ""
        self._file.write('\n], "edges": [')

    def _add_relation(self, relation: GraphRelation) -> None:
        ends = {"source": relation.source, "target": relation.target}
        # The label tells apart two edges between the same nodes.
        self._add({**ends, "key": relation.label, "label": relation.label, **relation.properties})

    def _end(self) -> None:
        self._write("\n]}")

    def _add(self, item: Mapping[str, Any]) -> None:
        self._file.write(f"{self._separator}\n{json.dumps(item)}")
        self._separator = ","


def _content(value: Value) -> str:
    return escape(_plain(value), {"\r": "&#13;"})


def _attribute(value: Value) -> str:
    return quoteattr(_plain(value))


def _plain(value: Value) -> str:
    return _NOT_IN_XML.sub("\ufffd", value) if isinstance(value, str) else str(value).lower()


def _attvalues(values: Values) -> str:
    given = [
        f'<attvalue for="{key}" value={_attribute(value)}/>'
        for key, value in values.items()
        if value is not None
    ]
    return f"<attvalues>{''.join(given)}</attvalues>" if given else ""
