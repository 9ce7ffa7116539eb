"""The settings of the table by name: those of a section have a dotted name, such as `serve.listen`."""

from __future__ import annotations

import dataclasses
from dataclasses import Field
from typing import Any

from forewarn.config.access import AccessConfig
from forewarn.config.notices import NoticesConfig
from forewarn.config.serve import ServeConfig
from forewarn.config.table import Config

SECTIONS: dict[str, type] = {"serve": ServeConfig, "access": AccessConfig, "notices": NoticesConfig}


def settings(table: type) -> dict[str, Field[Any]]:
    """Return the settings of one table by name."""
    return {one.name: one for one in dataclasses.fields(table) if "read" in one.metadata}


def all_settings() -> dict[str, Field[Any]]:
    """Return every setting of the config file but those of clusters, by its dotted name."""
    dotted = {
        f"{section}.{name}": one
        for section, table in SECTIONS.items()
        for name, one in settings(table).items()
    }
    return settings(Config) | dotted
