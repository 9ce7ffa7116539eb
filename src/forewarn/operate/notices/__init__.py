"""Notices by mail and webhook: to users about their jobs, to operators about what is at stake.

`notifier.py` is the thread, `rules/` what deserves a notice, `planning.py` who gets it and how many,
`sending.py` the way out, `requests.py` what people ask and set.
"""
