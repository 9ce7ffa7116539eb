"""The example of a config file: every setting as a comment."""

from __future__ import annotations

import json
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any

from forewarn.config.settings import SECTIONS, settings
from forewarn.config.table import ClusterConfig, Config


def template() -> str:
    """Write a config file with every setting as a comment, with its default or an example."""
    lines = ["# Forewarn's configuration. `forewarn config show` shows each value and where it comes from."]
    for name, setting in settings(Config).items():
        if name != "home":  # cannot be set by the file that is found through it
            lines += ["", *_commented(setting)]
    for section, table in SECTIONS.items():
        lines += ["", f"# {(table.__doc__ or '').splitlines()[0]}", f"# [{section}]"]
        for setting in settings(table).values():
            lines += ["", *_commented(setting)]
    lines += ["", "# One table for each cluster that differs from the above:", "# [clusters.alps]"]
    for setting in settings(ClusterConfig).values():
        lines += _commented(setting)
    return "\n".join(lines) + "\n"


def _commented(setting: Field[Any]) -> list[str]:
    has_default = setting.default not in (None, MISSING, ())
    value = setting.default if has_default else setting.metadata["example"]
    return [f"# {setting.metadata['help']}", f"# {setting.name} = {_as_toml(value)}"]


def _as_toml(value: object) -> str:
    """Write a value as TOML: JSON's numbers, texts, lists and booleans are the same there, tables are not."""
    if isinstance(value, list):
        return "[" + ", ".join(_as_toml(one) for one in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_as_toml(own)}" for name, own in value.items()) + "}"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
