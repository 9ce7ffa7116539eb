"""The long-running service: one process that collects, assesses, publishes and answers."""
