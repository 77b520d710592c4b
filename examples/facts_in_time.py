"""Ask what held at a date, and see which versions of a document are outdated.

    pip install torch --index-url https://download.pytorch.org/whl/cpu   # Linux without a GPU
    pip install -e ".[local]"
    python examples/facts_in_time.py

Runs offline: the packages include all-MiniLM-L6-v2 and a small spaCy pipeline.
"""

from __future__ import annotations

from e2graphrag_integrations import E2GraphRAG, SourceDocument, Validity

VERSIONS = {
    "2019": "The ferry to Halsen leaves at 7:00. Anna Holm is its captain.",
    "2021-04": "The ferry to Halsen leaves at 7:30. Bert Berg is its captain.",
    "2024": "The boat to Halsen now sails at 8:15 under Cleo Dahl.",
}
QUESTION = "Who is the captain of the ferry to Halsen?"

timetables = [
    SourceDocument(f"timetable-{date}", text, metadata={"url": "ferry.example", "issued": date})
    for date, text in VERSIONS.items()
]
keys = Validity(date="issued", source="url")  # same URL, later date: a newer version
with E2GraphRAG.open(":memory:") as rag:
    rag.add(timetables)
    for at in ("2020-06-01", "2022", None):
        result = rag.retrieve(QUESTION, as_of=Validity(at, date=keys.date, source=keys.source))
        print(f"\n=== {at or 'newest'}")
        for node in result.nodes:
            mark = f" (superseded by {node.superseded_by})" if node.superseded_by else ""
            print(f"{node.document_id}{mark}: {node.text}")
