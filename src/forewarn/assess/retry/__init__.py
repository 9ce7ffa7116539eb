"""The retry verdict: whether an ended job is worth another attempt, with which request, and why."""
