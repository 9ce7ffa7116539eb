"""Traces of a user that an erasure does not touch: files of the home that mention the name, and models."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from forewarn.errors import BundleError
from forewarn.learn.registry.manifest import Manifest
from forewarn.learn.registry.serving import Serving
from forewarn.store.name_mentions import mention_pattern

_LARGEST = 64 << 20  # bytes of a file that is searched
# The store's own files, which were written again, and formats in which a short name is found by chance.
_NOT_SEARCHED = ("forewarn.db*", "people.db*", "*.ubj", "*.cbm", "*.lock")


def files_with_mention(home: Path, user: str) -> list[str]:
    """Return the files of a home, but the store's, that mention a name; their names are relative."""
    mention = mention_pattern(user)
    found = []
    for path in sorted(home.rglob("*")):
        if any(path.match(pattern) for pattern in _NOT_SEARCHED) or path.is_symlink() or not path.is_file():
            continue
        name = str(path.relative_to(home))
        text = "" if path.stat().st_size > _LARGEST else path.read_bytes().decode("utf-8", "replace")
        if mention.search(name) or mention.search(text):
            found.append(name)
    return found


def models_trained(home: Path) -> list[str]:
    """Return the models that serve: they learnt, as numbers, from all jobs of their time."""
    serving, found = Serving(home / "models"), []
    for name in serving.names():
        with suppress(BundleError):
            folder = serving.champion(name)
            if folder is not None and Manifest.read(folder):
                found.append(str(name))
    return found
