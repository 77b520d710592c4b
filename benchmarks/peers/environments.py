"""Create a virtual environment with exact pins for every peer, again when the pins change."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
HOME = HERE.parent / ".peers"


def python_of(environment: str | None) -> str:
    """Return the interpreter of an environment, creating it if needed; None means this one."""
    if environment is None:
        return sys.executable
    folder = HOME / environment
    python = folder / "bin" / "python"
    pins = HERE / "requirements" / f"{environment}.txt"
    stamp = folder / "installed.txt"
    if not stamp.exists() or stamp.read_bytes() != pins.read_bytes():
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", pins], check=True)
        shutil.copy(pins, stamp)
    return str(python)


def offline() -> dict[str, str]:
    """Return environment variables that keep the peers from downloading anything.

    LlamaIndex ships the two tiktoken vocabularies and the NLTK data that the peers need.
    """
    spec = find_spec("llama_index.core")
    if spec is None or spec.origin is None:
        raise SystemExit("llama-index-core is missing: pip install 'llama-index-core>=0.14'")
    static = Path(spec.origin).parent / "_static"
    tiktoken = str(static / "tiktoken_cache")
    models = HERE.parents[1] / "src" / "e2graphrag_integrations" / "models"
    return os.environ | {
        "TIKTOKEN_CACHE_DIR": tiktoken,
        "CUSTOM_TIKTOKEN_CACHE_DIR": tiktoken,  # LiteLLM sets the former from it
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "NLTK_DATA": str(static / "nltk_cache"),
        "HF_HUB_OFFLINE": "1",
        "OPENAI_API_KEY": "none",
        "SPACY_PIPELINE": str(models / "en_e2g_sm"),
    }
