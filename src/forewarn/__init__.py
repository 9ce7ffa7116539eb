"""Forewarn predicts failure of HPC (Slurm) jobs before they waste their nodes: why, and what to change.

>>> import forewarn
>>> with forewarn.open("/tmp/nothing-here", policy="papers") as site:
...     site.config.policy
'papers'
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers assume true; importing `typing` would take most of this import's time
if TYPE_CHECKING:
    from typing import Any

    from forewarn.assess.assessment import Advice, Assessment, Failure, Finding, Reason, Verdict
    from forewarn.assess.node_health.records import NodeHealth
    from forewarn.assess.post_mortem.report import PostMortem
    from forewarn.assess.retry.verdict import RetryVerdict
    from forewarn.config import Config
    from forewarn.errors import (
        ForewarnError,
        LearningError,
        MissingExtraError,
        SchedulerError,
        ServiceError,
        SourceError,
        StoreError,
        UsageError,
    )
    from forewarn.job.record import Job, Node, Partition, UsageSample
    from forewarn.operate.model import Model
    from forewarn.operate.site import Site
    from forewarn.operate.site import open_site as open
    from forewarn.operate.train import TrainingResult
    from forewarn.serve.client.async_client import AsyncClient
    from forewarn.serve.client.client import Client

__version__ = "0.2.0"

# The module of each name: it is imported at its first use, so that `import forewarn` stays fast.
_MODULES = {
    "Advice": "assess.assessment",
    "Assessment": "assess.assessment",
    "AsyncClient": "serve.client.async_client",
    "Client": "serve.client.client",
    "Config": "config",
    "Failure": "assess.assessment",
    "Finding": "assess.assessment",
    "ForewarnError": "errors",
    "Job": "job.record",
    "LearningError": "errors",
    "MissingExtraError": "errors",
    "Model": "operate.model",
    "Node": "job.record",
    "NodeHealth": "assess.node_health.records",
    "Partition": "job.record",
    "PostMortem": "assess.post_mortem.report",
    "Reason": "assess.assessment",
    "RetryVerdict": "assess.retry.verdict",
    "SchedulerError": "errors",
    "ServiceError": "errors",
    "Site": "operate.site",
    "SourceError": "errors",
    "StoreError": "errors",
    "TrainingResult": "operate.train",
    "UsageError": "errors",
    "UsageSample": "job.record",
    "Verdict": "assess.assessment",
    "open": "operate.site",
}

__all__ = [
    "Advice",
    "Assessment",
    "AsyncClient",
    "Client",
    "Config",
    "Failure",
    "Finding",
    "ForewarnError",
    "Job",
    "LearningError",
    "MissingExtraError",
    "Model",
    "Node",
    "NodeHealth",
    "Partition",
    "PostMortem",
    "Reason",
    "RetryVerdict",
    "SchedulerError",
    "ServiceError",
    "Site",
    "SourceError",
    "StoreError",
    "TrainingResult",
    "UsageError",
    "UsageSample",
    "Verdict",
    "__version__",
    "open",
]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use (PEP 562)."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULES[name]}")
    value = getattr(module, "open_site" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
