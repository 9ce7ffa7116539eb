"""The jobs a model learns from, as tables in order of time."""
