"""What a Python script imports, by its text."""

from __future__ import annotations

import ast
import warnings


def parsed(source: bytes | None) -> ast.Module | None:
    """The script's tree; None where it is no Python that this one can read."""
    if source is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in somebody's strings
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imported_by(tree: ast.Module) -> frozenset[str]:
    """Every package that is imported anywhere, by the first part of its name."""
    return frozenset(name for node in ast.walk(tree) for name in _names(node))


def imported_surely(tree: ast.Module) -> dict[str, int]:
    """What is imported whenever the script runs, not in a function, an `if` or a `try`; with the lines."""
    found: dict[str, int] = {}
    for node in tree.body:
        for name in _names(node):
            found.setdefault(name, node.lineno)
    return found


def changes_path(tree: ast.Module) -> bool:
    """Whether the script may look for packages in places of its own (`sys.path`, `site`)."""
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
