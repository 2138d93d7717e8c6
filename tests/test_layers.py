"""The import rule: a module imports only from packages to its left; store and engine never meet.

errors  <-  core  <-  { store | engine }  <-  ops  <-  cli
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "git_wf"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAY_IMPORT = {
    "__init__": set(),
    "errors": {"core"},  # for the type of its diagnostics only; see the test of the runtime below
    "core": {"errors"},
    "store": {"errors", "core"},
    "engine": {"errors", "core"},
    "ops": {"errors", "core", "store", "engine"},
    "cli": {"errors", "core", "ops"},
    "checkpoints": {"errors", "core", "ops"},
    "__main__": {"cli"},
}
ONLY_IN_STORE = {"git", "gitdb", "pathspec"}


def layer(module: Path) -> str:
    first = module.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: name the module in full"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_left(module: Path) -> None:
    own = layer(module)
    assert own in MAY_IMPORT, f"'{own}' is no layer: add it to MAY_IMPORT and to the design"
    allowed = MAY_IMPORT[own] | {own, "__version__"}
    for name, line in imports(ast.parse(module.read_text())):
        top, _, rest = name.partition(".")
        if top == "git_wf":
            wanted = rest.partition(".")[0]
            assert wanted in allowed, (
                f"{module}:{line}: '{own}' may not import '{name}': move what is needed to the "
                "left, or hand it in from ops"
            )
        assert own == "store" or top not in ONLY_IN_STORE, (
            f"{module}:{line}: only git_wf/store imports '{top}': ask store for what it tells"
        )


def test_errors_import_nothing_of_ours_when_they_run() -> None:
    tree = ast.parse((PACKAGE / "errors.py").read_text())
    names = [
        name for node in tree.body if not isinstance(node, ast.If) for name, _ in imports(node)
    ]
    assert not [name for name in names if name.startswith("git_wf")]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_store_runs_git(module: Path) -> None:
    """No command line that begins with `git` outside git_wf/store."""
    if layer(module) == "store":
        return
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
            first = node.elts[0]
            if not (isinstance(first, ast.Constant) and first.value == "git"):
                continue
            assert len(node.elts) == 1, (
                f"{module}:{node.lineno}: only git_wf/store runs git: add a named question there"
            )
