"""The imports of a Python script, by its text."""

from __future__ import annotations

import ast
import warnings


def parsed(source: bytes | None) -> ast.Module | None:
    """Parse a script; None where this version of Python cannot read it."""
    if source is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in the script's strings
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imported_by(tree: ast.Module) -> frozenset[str]:
    """Return every imported package, by the first part of its name."""
    return frozenset(name for node in ast.walk(tree) for name in _names(node))


def imported_surely(tree: ast.Module) -> dict[str, int]:
    """Return unconditional imports, outside functions, `if` and `try`, with their lines."""
    found: dict[str, int] = {}
    for node in tree.body:
        for name in _names(node):
            found.setdefault(name, node.lineno)
    return found


def changes_path(tree: ast.Module) -> bool:
    """Check whether the script changes where Python looks for packages (`sys.path`, `site`)."""
    return any(
        isinstance(node, ast.Attribute) and node.attr in ("path", "meta_path", "addsitedir", "path_hooks")
        and isinstance(node.value, ast.Name) and node.value.id in ("sys", "site")
        for node in ast.walk(tree)
    )  # fmt: skip


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module.partition(".")[0]]
    return []
