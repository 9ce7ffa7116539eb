"""Node health: which nodes are healthy, suspect or sick, by Slurm's words and by the jobs that ran there."""

from __future__ import annotations

from forewarn.assess.node_health.classification import node_health
from forewarn.assess.node_health.fitness import exclude_line, fitness, sick_risk
from forewarn.assess.node_health.health_cache import keep_health, kept_health
from forewarn.assess.node_health.records import Health, NodeEvidence, NodeHealth
from forewarn.assess.node_health.slurm_states import in_service

__all__ = [
    "NodeEvidence",
    "Health",
    "NodeHealth",
    "exclude_line",
    "fitness",
    "in_service",
    "keep_health",
    "kept_health",
    "node_health",
    "sick_risk",
]
