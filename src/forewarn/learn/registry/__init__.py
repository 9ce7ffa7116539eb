"""Models on disk and in MLflow, and which of them serves."""
