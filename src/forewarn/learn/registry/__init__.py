"""The registry of models: bundles on disk, versions in MLflow, and which of them serves."""
