"""Node health: which nodes are healthy, suspect or sick, by Slurm's words and by the jobs that ran there."""

from __future__ import annotations

from forewarn.assess.node_health.findings import Evidence, Health, NodeHealth
from forewarn.assess.node_health.fitness import exclude_line, fitness, sick_risk
from forewarn.assess.node_health.judging import node_health
from forewarn.assess.node_health.kept import keep_health, kept_health
from forewarn.assess.node_health.states import in_service

__all__ = [
    "Evidence",
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
