"""Reader of documents in a file: lines of JSON, an array, or an answer of Elasticsearch.

Each may be the document itself or Elasticsearch's hit with the document as its `_source`.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Iterator
from typing import Any

from forewarn.errors import CutShortError, SourceError
from forewarn.sources.base import Source
from forewarn.sources.slurm.json_stream import JsonReader

# The first member of an answer to a search, by version and type of search.
_ANSWER = re.compile(rb'\{\s*"(?:took|_scroll_id|pit_id|timed_out|num_reduce_phases|_shards|_clusters|hits)"')
# Members that every document has.
_DOCUMENT = frozenset({"jobid", "@submit", "@start", "@end"})


class BrokenDocument(str):
    """The reason why a part of the file is no document."""

    __slots__ = ()


def documents(source: Source, stream: io.BufferedReader) -> Iterator[tuple[int, Any]]:
    """Yield each document with its number (or line); `BrokenDocument` in place of what is none."""
    if stream.peek(3).startswith(codecs.BOM_UTF8):
        stream.read(3)
    head = stream.peek(64).lstrip()
    if head.startswith(b"[") or _ANSWER.match(head):
        found = _in_array(source, stream, is_answer=head.startswith(b"{"))
    else:
        found = _on_lines(source, stream)
    first = next(found, None)
    if first is None:
        raise SourceError(f"{source.path}: contains no document")
    line, document = first[0], _of_hit(first[1])
    if isinstance(document, BrokenDocument):
        raise SourceError(
            f"{source.path}: {document} (line {line}). jobcomp: reads one document a line (as `jq -c '.[]'` "
            "writes them), a JSON array, or an answer of Elasticsearch"
        )
    if not isinstance(document, dict) or _DOCUMENT.isdisjoint(document):
        holds = ", ".join(map(str, list(document)[:5])) if isinstance(document, dict) else repr(document)[:80]
        raise SourceError(f"{source.path}: not documents of Slurm's jobcomp: the first one holds {holds}")
    yield line, document
    for line, document in found:
        yield line, _of_hit(document)


def _of_hit(document: Any) -> Any:
    """Unwrap a document of Elasticsearch."""
    return document["_source"] if isinstance(document, dict) and "_source" in document else document


def _on_lines(source: Source, stream: io.BufferedReader) -> Iterator[tuple[int, Any]]:
    decode = json.JSONDecoder(strict=False).decode  # Slurm has written raw control characters into strings
    for before, block in source.text_blocks(stream):
        for line, text in enumerate(block.split(b"\n"), before + 1):
            if not text.strip():
                continue
            try:
                yield line, decode(text.decode())
            except (ValueError, RecursionError) as error:
                yield line, BrokenDocument(f"not JSON: {error}")


def _in_array(source: Source, stream: io.BufferedReader, *, is_answer: bool) -> Iterator[tuple[int, Any]]:
    reader = JsonReader(stream, str(source.path), source.options.block_bytes)
    number = 0
    try:
        for document in _hits(reader) if is_answer else reader.elements():
            number += 1
            yield number, document
        reader.finish()
    except CutShortError as error:
        # The documents before the end of the file are whole.
        yield number + 1, BrokenDocument(f"the file ends here: {str(error).removeprefix(f'{source.path}: ')}")


def _hits(reader: JsonReader) -> Iterator[Any]:
    """Yield the hits of an answer: the array `hits` in the object `hits`."""
    for name in reader.members():
        if name != "hits":
            reader.value()
            continue
        for inner in reader.members():
            if inner == "hits":
                yield from reader.elements()
            else:
                reader.value()
