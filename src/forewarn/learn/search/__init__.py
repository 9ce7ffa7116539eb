"""The search for good models: Ray Tune, local or on a cluster."""
