"""Small real programs, submitted over time by several people who make mistakes and learn from them."""
