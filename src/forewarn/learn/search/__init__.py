"""The search for good models with Ray Tune, on this machine or on a Ray cluster."""
