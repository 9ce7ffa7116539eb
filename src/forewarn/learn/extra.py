"""The extra `train`, checked before a history is read: whoever lacks it learns so at once."""

from __future__ import annotations

from importlib.util import find_spec

from forewarn.errors import MissingExtraError

# What every fit imports. A family's own library is checked by the family, MLflow by the registry.
PACKAGES = ("jinja2", "optuna", "ray", "sklearn", "threadpoolctl", "xgboost")


def check_train_extra() -> None:
    """Raise `MissingExtraError` unless everything that fits models is installed; import nothing."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"fitting models needs {', '.join(missing)}, not installed here: pip install 'forewarn[train]'"
        )
