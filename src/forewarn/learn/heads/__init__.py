"""What a model predicts beside failure: its cause, run time and resource use, profiles, odd requests."""
