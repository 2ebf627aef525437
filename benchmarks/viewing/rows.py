"""Reductions over half the rows, and the size of an index: small documents, a row each."""

import os
import random
import sqlite3
import statistics
import time

from comparison.figures import figure
from comparison.servers import Failure

from . import documents
from .build import grouped
from .node import ViewNode

SPACE = 1_000_000


def small(count, seed=4):
    """(key, value) pairs of documents that are little more than their row."""
    draw = random.Random(seed)
    for number in range(count):
        yield documents.key(number), b'{"number":%d,"key":%d,"value":%d}' % (
            number, draw.randrange(SPACE), draw.randrange(1_000))


def timed(connection, request, times):
    """The median time of a query, and its last answer."""
    found = []
    for _ in range(times):
        began = time.monotonic()
        answer = connection.answer(request)
        found.append(time.monotonic() - began)
    return statistics.median(found), answer


def measured(connection, view, total, times, draw):
    """Seconds of `_sum` over a random half of the rows, of the server's scan of these rows, and of
    an answer without rows."""
    first = draw.randrange(SPACE // 2)
    half = {"startkey": first, "endkey": first + SPACE // 2, "stale": "ok"}
    sum_seconds, answer = timed(connection, connection.query(view, **half), times)
    _, counted = timed(
        connection, connection.query(view + "_rows", **half), 1)
    # All rows of the range are read and none is sent but the last.
    skip = counted["rows"][0]["value"] - 1
    scan_seconds, last = timed(
        connection, connection.query(view, reduce="false", skip=skip, limit=5, **half),
        max(1, times // 10))
    if len(last["rows"]) != 1:
        raise Failure(f"the scan of {skip + 1} rows gave {len(last['rows'])} more")
    empty_seconds, _ = timed(
        connection, connection.query(view, reduce="false", startkey=SPACE, stale="ok"), times)
    return sum_seconds, scan_seconds, empty_seconds, skip + 1, answer["rows"][0]["value"], half


def sqlite_scan(pairs):
    """A function of a range: seconds and result of SQLite's sum over a covering index in memory."""
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE rows (key INTEGER, id TEXT, value INTEGER, "
                 "PRIMARY KEY (key, id)) WITHOUT ROWID")
    draw = random.Random(4)
    base.executemany("INSERT INTO rows VALUES (?, ?, ?)", sorted(
        (draw.randrange(SPACE), key.decode(), draw.randrange(1_000)) for key, _ in pairs))

    def scan(first, last):
        began = time.monotonic()
        found = base.execute("SELECT sum(value) FROM rows WHERE key BETWEEN ? AND ?",
                             (first, last)).fetchone()[0]
        return time.monotonic() - began, found

    return scan


def reduction(plan):
    count = plan.scaled(1_000_000)
    sizes = [count // 100, count // 10, count]
    times = 20 if plan.quick else 100
    draw = random.Random(6)
    views = {}
    for size in sizes:
        source = f"function (doc, meta) {{ if (doc.number < {size}) emit(doc.key, doc.value); }}"
        # Two reductions of one index; the first is measured.
        views[f"v{size}"], views[f"v{size}_rows"] = (source, "_sum"), (source, "_count")
    with ViewNode(megabytes=2048) as node:
        plan.say(f"sum: {count:,} small documents")
        node.load(small(count))
        node.design(views)
        totals = node.await_built(*(f"v{size}" for size in sizes))
        if totals != sizes:
            raise Failure(f"the views have {totals} rows, not {sizes}")
        scan = sqlite_scan(small(count))
        found = {}
        with node.connection() as connection:
            for size in sizes:
                plan.say(f"sum: {size:,} rows")
                found[size] = measured(connection, f"v{size}", size, times, draw)
    half = found[count][5]
    peer_seconds, peer_sum = scan(half["startkey"], half["endkey"])
    if peer_sum != found[count][4]:
        raise Failure(f"the view's sum is {found[count][4]}, SQLite's {peer_sum}")
    figures = []
    for size in reversed(sizes):
        sum_seconds, scan_seconds, empty_seconds, rows, _, _ = found[size]
        note = (f"{1e6 * sum_seconds:.0f} us against {1_000 * scan_seconds:.1f} ms for "
                f"{grouped(rows)} rows, over HTTP; a query without rows takes "
                f"{1e6 * empty_seconds:.0f} us")
        if size == count:
            note += (f"; the scan is the same range with `reduce=false`, all its rows skipped but the "
                     f"last; SQLite sums them in {1_000 * peer_seconds:.0f} ms; nodes read are not "
                     f"visible from outside; median of {times} queries")
        must = 100 if size == count else None
        figures.append(figure(
            f"`_sum` over half of {grouped(size)} rows, against a scan of them",
            scan_seconds / sum_seconds, "x", must, smaller=False, note=note))
    return figures


# MARK: Size

def size(plan):
    count = plan.scaled(1_000_000)
    with ViewNode(megabytes=2048) as node:
        plan.say(f"size: {count:,} small documents")
        node.load(small(count))
        node.design({"rows": "function (doc, meta) { emit(doc.key, doc.value); }"})
        rows, = node.await_built("rows")
        first = stored(node, rows)
        plan.say(f"size: {count // 5:,} updates")
        updates = list(small(count, seed=8))
        random.Random(8).shuffle(updates)
        node.load(updates[:count // 5])
        rows, = node.await_built("rows")
        updated = stored(node, rows)
    return [figure(
        "index bytes of a row, with the back index", first, "B", 60, 40, note=(
            f"all files of the index of {grouped(rows)} rows after the node's end; documents' keys of "
            f"{documents.KEY_BYTES} bytes, numbers as keys and values of the rows; {updated:.1f} B "
            f"after a fifth of the documents, at random, was updated in one go"))]


def stored(node, rows):
    """Bytes of the index files for each row.

    The sorted runs of a build are removed in steps after it, and so the sizes must be still for two
    seconds. The node is stopped, so that the files have everything, and started again.
    """
    sizes, since, deadline = None, time.monotonic(), time.monotonic() + 60
    while time.monotonic() - since < 2:
        if time.monotonic() > deadline:
            raise Failure("the index files change their sizes for a minute")
        time.sleep(0.1)
        if (found := node.index_files()) != sizes:
            sizes, since = found, time.monotonic()
    node.stop()
    files = node.index_files()
    node.start()
    if not files:
        raise Failure("there are no index files")
    return sum(files.values()) / rows
