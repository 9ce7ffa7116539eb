"""The one computation of history: a step per event over the state of entities (design rule 2).

`run.run` walks events in order of time. A *submit* puts a job in flight and, like a *start*, can emit that
job's features from the state as it is just then; a *known* event teaches the state how the job ended.
In batch, `run` gets many events; online, one. There is no second implementation.
"""
