"""The simulator as a live scheduler: a simulated cluster that lives on, at a chosen speed.

`world.py` holds the cluster and moves its time; `admission.py` decides what a request amounts to, and what is
refused; `programs.py`, what a submitted script needs; `dependencies.py`, which jobs wait for which;
`records.py` turns it into records; `folder.py` keeps what a restart needs: scenario, seed, clock, and the
actions of users. Every process that opens the same folder computes the same cluster.
"""

from forewarn.sources.simulator.live.scheduler import SimulatedScheduler

__all__ = ["SimulatedScheduler"]
