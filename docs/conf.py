"""Sphinx configuration: Markdown pages, API reference from Google-style docstrings."""

import sys
from importlib import import_module, metadata
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

project = "e2graphrag-integrations"
author = "e2graphrag-integrations contributors"
project_copyright = "2026, e2graphrag-integrations contributors"
release = metadata.version("e2graphrag-integrations")

# Imported here: under autodoc, pydantic fails to build some schemas of LlamaIndex and MCP.
for module in ("llama_index", "langchain", "server.mcp_server"):
    import_module(f"e2graphrag_integrations.{module}")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
default_role = "code"  # docstrings use single backticks for code
html_theme = "furo"
html_theme_options = {  # the link "edit this page"
    "source_repository": "https://github.com/e2graphrag/e2graphrag-integrations/",
    "source_branch": "main",
    "source_directory": "docs/",
}
suppress_warnings = ["ref.python"]  # attribute names such as `start` exist in several classes
html_title = "e2graphrag-integrations"
exclude_patterns = ["_build", "maintainers"]

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Key init args", "params_style")]  # LangChain's section names
napoleon_attr_annotations = True
napoleon_use_ivar = True  # "Attributes:" sections describe fields that autodoc lists as members


def setup(app: Sphinx) -> None:
    """Write llms.txt when the site is built."""
    write = import_module("llms").write_to
    app.connect("build-finished", lambda built, error: error or write(Path(built.outdir)))
