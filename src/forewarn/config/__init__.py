"""The configuration: flag over environment over file over default.

`table.py` has every setting, `values.py` how each is read, `resolve.py` where its value comes from.
"""

from forewarn.config.access import AccessConfig
from forewarn.config.notices import NoticesConfig
from forewarn.config.resolve import (
    CONFIG_FILE,
    CONFIG_VARIABLE,
    PREFIX,
    Origin,
    ResolvedConfig,
    resolve,
    unknown_variables,
    variable,
)
from forewarn.config.serve import ServeConfig
from forewarn.config.settings import all_settings, settings
from forewarn.config.table import ClusterConfig, Config, default_home
from forewarn.config.template import template
from forewarn.config.values import is_user_name, time_zone

__all__ = [
    "CONFIG_FILE",
    "CONFIG_VARIABLE",
    "PREFIX",
    "AccessConfig",
    "ClusterConfig",
    "Config",
    "NoticesConfig",
    "Origin",
    "ResolvedConfig",
    "ServeConfig",
    "all_settings",
    "default_home",
    "is_user_name",
    "resolve",
    "settings",
    "template",
    "time_zone",
    "unknown_variables",
    "variable",
]
