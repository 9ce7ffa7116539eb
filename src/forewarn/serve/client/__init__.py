"""The client of a service: `Client` and `AsyncClient`. One table of calls for both, in `calls.py`."""
