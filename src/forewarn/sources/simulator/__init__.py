"""A simulated cluster: jobs whose failures have known causes, in every format that sources read."""

from forewarn.sources.simulator.run import SimulationSummary, simulate
from forewarn.sources.simulator.scenario import Scenario, load_scenario
from forewarn.sources.simulator.simulator import Simulator
from forewarn.sources.simulator.truth import TRUTH_SCHEMA, Ending, replay
from forewarn.sources.simulator.writers import WRITERS

__all__ = [
    "TRUTH_SCHEMA",
    "WRITERS",
    "Ending",
    "Scenario",
    "SimulationSummary",
    "Simulator",
    "load_scenario",
    "replay",
    "simulate",
]
