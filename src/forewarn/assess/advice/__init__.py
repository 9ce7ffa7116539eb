"""Advice: changes of the request that lower the risk, found by a search over what the cluster offers.

Every change has evidence: it addresses a cause of failure that is likely for this job, and the risk before
and after it is computed like the risk of any job. Advice only raises memory and time; a request that could
be smaller is a separate saving.
"""
