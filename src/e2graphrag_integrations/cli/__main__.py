"""Run the command line as `python -m e2graphrag_integrations.cli`."""

from __future__ import annotations

import sys

from e2graphrag_integrations.cli.main import main

sys.exit(main())
