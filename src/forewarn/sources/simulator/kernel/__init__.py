"""The compiled part of the simulator: one event loop over arrays, no Python object in it."""
