"""What commands ask of a service instead of the home, where `FOREWARN_URL` or --url names one.

Each function returns the same result as the one of `operate` that it stands for, so that a command prints
both alike.
"""
