"""The five parts of a store's contract; `store/base.py` combines them.

They share these rules, which each part's tests hold every store to (`tests/store/contract.py`):

- **Threads.** Any number of threads may call the reading side at once, of one store object; each answer is
  one published state of the store. One thread at a time writes.
- **Who.** Whoever opened the store may read. A writer is valid inside the block of `Store.writing()`, in the
  thread that began it, and raises `StoreError` after its end.
- **Errors** are `UsageError` where the call is wrong, `StoreBusyError` where another writes and does not end,
  `StoreError` for all else; they say what to do.
"""
