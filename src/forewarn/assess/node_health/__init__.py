"""Node health: healthy, suspect or sick, by Slurm's node states and by the jobs that ran on a node."""

from __future__ import annotations

from forewarn.assess.node_health.classification import node_health
from forewarn.assess.node_health.fitness import exclude_line, fitness, sick_risk
from forewarn.assess.node_health.health_cache import cache_health, cached_health
from forewarn.assess.node_health.records import Health, NodeEvidence, NodeHealth
from forewarn.assess.node_health.slurm_states import in_service

__all__ = [
    "Health",
    "NodeEvidence",
    "NodeHealth",
    "cache_health",
    "cached_health",
    "exclude_line",
    "fitness",
    "in_service",
    "node_health",
    "sick_risk",
]
