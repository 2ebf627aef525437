"""The first build of a view, against JavaScriptCore alone, and SQLite's index beside it."""

import json
import os
import sqlite3
import statistics
import subprocess
import tempfile
import time

from comparison.figures import figure
from comparison.servers import Failure

from . import documents
from .processes import Usage, children, private_bytes
from .node import ViewNode

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "alone.c")
STATEMENT = (
    "CREATE INDEX ages ON documents(json_extract(body, '$.age')) "
    "WHERE json_extract(body, '$.type') = 'user'"
)


def compiled(directory):
    """The program that maps with JavaScriptCore alone."""
    program = os.path.join(directory, "alone")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "javascriptcoregtk-4.1"], capture_output=True,
        text=True, check=True).stdout.split()
    done = subprocess.run(["cc", "-O2", "-o", program, SOURCE, *flags], capture_output=True,
                          text=True)
    if done.returncode:
        raise Failure(f"alone.c: {done.stderr}")
    return program


def alone(plan, program, lines):
    """JavaScriptCore on one core: its report."""
    done = subprocess.run(
        ["taskset", "-c", str(plan.server_core), program, lines, documents.MAP],
        capture_output=True, text=True)
    if done.returncode:
        raise Failure(done.stderr.strip())
    return json.loads(done.stdout)


def built(node, number):
    """Builds the view of a new index; returns its rows, seconds and processor time."""
    # Another text of the same function: no index of an earlier round is used.
    view = f"ages{number}"
    usage = Usage(node.pid)
    node.design({view: f"{documents.MAP} // {number}"})
    rows, = node.await_built(view)
    usage.end()
    usage.memory = private_bytes(node.pid) + sum(map(private_bytes, children(node.pid)))
    node.undesign()
    return rows, usage


def sqlite(directory, pairs):
    """Seconds of SQLite's index of the same documents."""
    path = os.path.join(directory, "documents.sqlite")
    base = sqlite3.connect(path, isolation_level=None)
    try:
        base.execute("PRAGMA journal_mode = WAL")
        base.execute("PRAGMA synchronous = NORMAL")
        base.execute("CREATE TABLE documents (id TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID")
        base.execute("BEGIN")
        base.executemany("INSERT INTO documents VALUES (?, ?)",
                         ((key.decode(), value.decode()) for key, value in pairs))
        base.execute("COMMIT")
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        began = time.monotonic()
        base.execute(STATEMENT)
        return time.monotonic() - began
    finally:
        base.close()
        os.remove(path)


def build(plan):
    count = plan.scaled(1_000_000)
    ratios, ours, theirs, used, memory = [], [], [], [], []
    with tempfile.TemporaryDirectory(prefix="divan-views-") as directory:
        program = compiled(directory)
        lines = os.path.join(directory, "lines")
        documents.write_lines(lines, documents.users(count))
        plan.say("build: SQLite")
        indexing = sqlite(directory, documents.users(count))
        with ViewNode() as node:
            plan.say(f"build: storing {count:,} documents")
            node.load(documents.users(count))
            without = private_bytes(node.pid)
            for number in range(plan.rounds):
                plan.say(f"build: round {number + 1} of {plan.rounds}")
                peer = alone(plan, program, lines)
                rows, usage = built(node, number)
                if rows != peer["rows"]:
                    raise Failure(f"the view has {rows} rows, not {peer['rows']}")
                ours.append(count / usage.seconds)
                theirs.append(count / peer["seconds"])
                ratios.append(ours[-1] / theirs[-1])
                used.append(usage)
                memory.append(usage.memory - without)
    ratio, fastest = statistics.median(ratios), statistics.median(ours)
    server = statistics.median(1e6 * each.server / count for each in used)
    scripts = statistics.median(1e6 * each.scripts / count for each in used)
    return [figure(
        f"first build of {grouped(count)} documents, against JavaScriptCore alone on one core",
        ratio, "x", 0.7, 1.0, smaller=False, note=(
            f"{grouped(fastest)} against {grouped(statistics.median(theirs))} documents/s, median "
            f"of {plan.rounds} alternating rounds, {min(ratios):.2f} to {max(ratios):.2f}; "
            f"{rows:,} rows of 1 KiB documents; from PUT of the design document to the answer of "
            f"`stale=false`; {server:.1f} us CPU of the server and {scripts:.1f} us of its script "
            f"processes a document, {max(memory) / 1e6:.0f} MB more private memory; SQLite's index on "
            f"`json_extract`: {grouped(count / indexing)} documents/s"))]


def grouped(number):
    return f"{number:,.0f}".replace(",", " ")
