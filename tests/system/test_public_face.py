"""The public names, and rules that the entire source follows."""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import e2graphrag_integrations as package

SOURCE = Path(package.__file__).parent
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
    for path in sorted(SOURCE.rglob("*.py"))
}
HEAVY = (
    "llama_index langchain_core torch spacy faiss scipy networkx rapidfuzz "
    "sentence_transformers transformers openai aiohttp"
).split()
PRINTERS = {"cli.output.terminal"}


@functools.cache
def parsed(path):
    """Return the syntax tree of a file, which several tests read."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes(path):
    """Return the nodes of a syntax tree; walking the trees takes longer than any rule."""
    return tuple(ast.walk(parsed(path)))


def imported_modules(path):
    """Yield the modules that a file imports, at the top or in functions."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_every_public_name_resolves():
    assert [name for name in package.__all__ if getattr(package, name, None) is None] == []
    assert set(package.__all__) <= set(dir(package))


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Nowhere"):
        _ = package.Nowhere


def test_every_error_derives_from_the_base_error():
    errors = [e for e in vars(package.errors).values() if isinstance(e, type)]
    assert len(errors) > 15
    assert all(issubclass(error, package.E2GraphRAGError) for error in errors)


def test_importing_the_package_loads_no_heavy_library():
    code = f"import sys, e2graphrag_integrations\nprint([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_engine_loads_no_framework_and_no_model_library():
    code = (
        "import sys\n"
        "from e2graphrag_integrations import E2GraphRAG\n"
        "E2GraphRAG.open(':memory:').close()\n"
        "heavy = ('llama_index', 'langchain_core', 'torch', 'spacy')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_unsafe_deserialization_or_eval():
    for name, path in MODULES.items():
        tops = {module.split(".")[0] for module in imported_modules(path)}
        if name == "portability.reopening":
            tops -= {"pickle"}  # imports only `dumps`, to find out what can be pickled
            assert "from pickle import PicklingError, dumps\n" in path.read_text(encoding="utf-8")
        assert not tops & {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}, name
        for node in nodes(path):
            if not isinstance(node, ast.Call):
                continue
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            is_builtin = isinstance(node.func, ast.Name)
            assert not (is_builtin and called in {"eval", "exec", "compile", "__import__"}), name
            allowed = {k.arg: k.value for k in node.keywords}.get("allow_pickle")
            assert allowed is None or ast.literal_eval(allowed) is False, name


def test_only_the_command_line_prints():
    for name, path in MODULES.items():
        if name in PRINTERS:
            continue
        calls = [n for n in nodes(path) if isinstance(n, ast.Call)]
        assert "print" not in {getattr(call.func, "id", "") for call in calls}, name


def test_no_module_has_mutable_state():
    """Module-level names are constants: no list, set or built dict, and no `global`."""
    for name, path in MODULES.items():
        tree = parsed(path)
        assert not any(isinstance(node, ast.Global) for node in nodes(path)), name
        for node in tree.body:
            value = getattr(node, "value", None)
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            names = [t.id for t in targets if isinstance(t, ast.Name)]
            if not names or names == ["__all__"]:
                continue
            is_mutable = isinstance(value, ast.List | ast.Set | ast.ListComp | ast.SetComp) or (
                isinstance(value, ast.Call)
                and getattr(value.func, "id", "") in {"list", "set", "dict", "defaultdict", "deque"}
            )
            assert not is_mutable, f"{name}: {names}"


def test_module_level_dicts_are_never_modified():
    for name, path in MODULES.items():
        tree = parsed(path)
        module_dicts = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in nodes(path):
            is_assigned = (
                isinstance(node, ast.Subscript)
                and isinstance(node.ctx, ast.Store | ast.Del)
                and getattr(node.value, "id", "") in module_dicts
            )
            is_updated = (
                isinstance(node, ast.Attribute)
                and node.attr in {"update", "setdefault", "pop", "clear", "popitem"}
                and getattr(node.value, "id", "") in module_dicts
            )
            is_modified = is_assigned or is_updated
            assert not is_modified, f"{name}, line {getattr(node, 'lineno', 0)}"


def test_package_is_marked_as_typed():
    assert (SOURCE / "py.typed").exists()


def test_docstring_examples_run():
    names = [n for n, path in MODULES.items() if ">>> " in path.read_text(encoding="utf-8")]
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in sorted(names)]
    assert modules
    assert [module.__name__ for module in modules if doctest.testmod(module).failed] == []
