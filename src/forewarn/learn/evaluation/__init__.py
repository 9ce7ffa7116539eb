"""How good a model is, beside simple rules, on later jobs."""
