"""The live simulated cluster: a day in steps, as a service asks for it, against the same day at once.

    python -m bench.simulated_live

Both begin with the same week, and end with the same jobs.
"""

from __future__ import annotations

import time
from datetime import date

from forewarn.sources.simulator.live.world import LiveWorld
from forewarn.sources.simulator.scenario import load_scenario

DAY = 86400


def seconds(step: int) -> tuple[float, int]:
    """Return the time that the eighth day takes in steps of so many seconds, and the jobs until then."""
    world = LiveWorld(load_scenario("default"), 5, date(2026, 5, 4))
    world.advance_to(world.begin + 7 * DAY)
    begin = time.perf_counter()
    for moment in range(world.now + step, world.begin + 8 * DAY + 1, step):
        world.advance_to(moment)
    took = time.perf_counter() - begin
    return took, int(world.in_kernel()[-1])


if __name__ == "__main__":
    seconds(DAY)  # compiles the kernel
    base, jobs = seconds(DAY)
    print(f"the eighth day at once: {base * 1000:.1f} ms, {jobs:,} jobs so far")
    for step in (3600, 60, 1):
        took, found = seconds(step)
        assert found == jobs
        print(f"in steps of {step:,} s: {took / base:.2g} of it, {took / DAY * step * 1e6:.0f} µs a step")
