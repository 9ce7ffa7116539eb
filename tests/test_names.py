"""Names and docstrings of the whole package: one meaning a name, words that a newcomer understands."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

import forewarn

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/forewarn"
FILES = sorted(SOURCE.rglob("*.py"))
FOLDERS = ("src", "tests", "bench", "lab", "tools")

# Words that say neither what a thing is nor what a function does; `made_at` is a field of stored assessments.
UNCLEAR = {"told", "said", "made", "spoken", "happened", "foreseen", "anew"}
ALLOWED = {"made_at", "connection_made"}  # the latter is asyncio's

# First words of docstrings that are no verbs: "The rows of a job" does not tell what the function does.
WORDS = """
    a after all also an another any are as at before between both by each every few first for from
    had has here his how if in is it its last less many more most next no nobody none not nothing of
    on one only other over same several since so some somebody such that the their then there these
    they this those through to two under until we what whatever when where whether which while who
    whoever whose why with without
"""
NO_VERBS = frozenset(WORDS.split())


@dataclass(frozen=True)
class Function:
    """A function that is not read like an attribute, whose docstring may be a noun."""

    place: str
    docstring: str | None


@dataclass(frozen=True)
class Names:
    """What a file defines."""

    file: str
    classes: list[str]
    aliases: list[tuple[str, str]]  # and their types
    functions: list[Function]


@cache
def names() -> list[Names]:
    """Read every file once, and keep no tree: half a million nodes would cost more than to parse them."""
    return [names_of(str(path.relative_to(SOURCE)), ast.parse(path.read_text())) for path in FILES]


def names_of(file: str, tree: ast.Module) -> Names:
    found = Names(file, [], [], [])
    for node in statements(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found.classes.append(node.name)
        elif isinstance(node, ast.FunctionDef) and not is_property(node):
            place = f"{file}:{node.lineno}: {node.name}"
            found.functions.append(Function(place, ast.get_docstring(node)))
    for node in tree.body:
        if isinstance(node, ast.Assign) and is_alias(node):
            name = node.targets[0].id  # type: ignore[attr-defined]
            found.aliases.append((name, ast.dump(node.value)))
    return found


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk the statements: definitions are among them, and no expression holds one."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.expr):
            yield node
            yield from statements(node)


def test_no_public_class_name_has_two_meanings() -> None:
    """A type alias counts too: several modules may define one of a name, but as the same type."""
    classes, aliases = defaultdict(list), defaultdict(list)
    types = defaultdict(set)
    for found in names():
        for name in found.classes:
            classes[name].append(found.file)
        for name, meaning in found.aliases:
            aliases[name].append(found.file)
            types[name].add(meaning)
    assert {name: files for name, files in classes.items() if len(files) > 1} == {}
    assert {name: files for name, files in aliases.items() if name in classes} == {}
    assert {name: files for name, files in aliases.items() if len(types[name]) > 1} == {}


def is_alias(node: ast.Assign) -> bool:
    """Check whether an assignment names a type: ``Rows = NDArray[np.int64]``."""
    target, value = node.targets[0], node.value
    if not isinstance(target, ast.Name) or not re.fullmatch(r"[A-Z][a-z]\w*", target.id):
        return False
    return isinstance(value, ast.Subscript | ast.BinOp)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_is_a_bare_participle(folder: str) -> None:
    found = []
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths
    for path in paths:
        text = path.read_text()
        if not any(word in text.lower() for word in UNCLEAR):
            continue  # a name cannot be there either, and tokenizing takes long
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            words = set(token.string.strip("_").lower().split("_"))
            if token.type == tokenize.NAME and words & UNCLEAR and token.string not in ALLOWED:
                found.append(f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}")
    assert found == []


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    """Beside ruff's D401, which knows "Returns" but not "Whether"."""
    found = []
    for function in chain.from_iterable(own.functions for own in names()):
        first = (function.docstring or "Do").split(maxsplit=1)[0]
        if first.lower().strip("`,.:") in NO_VERBS or not first[0].isupper():
            found.append(f"{function.place}: {first} …")
    assert found == []


def is_property(node: ast.FunctionDef) -> bool:
    """Check whether a function is read like an attribute, whose docstring may be a noun."""
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def glossary() -> list[str]:
    text = (ROOT / "docs/glossary.md").read_text()
    return re.findall(r"^\| \*\*(.+?)\*\*", text, re.MULTILINE)


def test_the_glossary_is_sorted_and_has_no_term_twice() -> None:
    terms = glossary()
    assert len(terms) > 30
    assert terms == sorted(set(terms), key=str.lower)


def test_every_public_class_is_in_the_glossary() -> None:
    text = (ROOT / "docs/glossary.md").read_text()
    classes = [name for name in forewarn.__all__ if name[0].isupper() and not name.endswith("Error")]
    assert [name for name in classes if f"`{name}`" not in text] == []
