"""An index as one HTML file: its statistics, documents, answers, entity graph and summary trees."""

from __future__ import annotations

from e2graphrag_integrations.html_report.write import HtmlReport, write_report

__all__ = ["HtmlReport", "write_report"]
