"""Ten rows by key over HTTP: what a query costs the server, against PostgreSQL's simple protocol."""

import itertools
import random
import statistics
import time

from comparison.figures import figure
from comparison.servers import Failure

from . import documents
from .build import grouped
from .node import ViewNode
from .postgres import Postgres
from .processes import cpu_seconds

ROWS = 10
# Of documents with an expression index, as the view is; and of a table of the rows alone, whose
# index has everything the query wants.
EXPRESSION = "SELECT id, (body->>'group')::int FROM documents WHERE (body->>'group')::int = {}"
COLUMNS = "SELECT id, key FROM rows WHERE key = {} ORDER BY id"


def grouped_documents(count):
    """The usual documents; ten each have one number as their group."""
    for number, (key, value) in enumerate(documents.users(count)):
        yield key, b'{"group":%d,%s' % (number % (count // ROWS), value[1:-16] + b'"}')


def measured(exchange, requests, seconds, pid):
    """Closed loop: queries a second, and the server's processor time of each in microseconds."""
    began, used = time.monotonic(), cpu_seconds(pid)
    count = 0
    while time.monotonic() - began < seconds:
        for request in itertools.islice(requests, 50):
            exchange(request)
            count += 1
    return (count / (time.monotonic() - began), 1e6 * (cpu_seconds(pid) - used) / count)


def endless(make, groups):
    """Requests for random groups, prepared before they are needed."""
    draw = random.Random(5)
    return itertools.cycle([make(draw.randrange(groups)) for _ in range(2_000)])


def fill(session, count):
    session.run("CREATE TABLE documents (id text PRIMARY KEY, body jsonb)")
    session.copy("documents", (
        key + b"\t" + value for key, value in grouped_documents(count)))
    session.run("CREATE INDEX ON documents (((body->>'group')::int))")
    session.run("CREATE TABLE rows AS SELECT (body->>'group')::int AS key, id FROM documents")
    session.run("CREATE INDEX ON rows (key, id)")
    session.run("VACUUM ANALYZE documents")
    session.run("VACUUM ANALYZE rows")
    plan = " ".join(session.first("EXPLAIN " + COLUMNS.format(1)))
    if "Index Only Scan" not in plan:
        raise Failure(f"PostgreSQL does not use the index of the rows: {plan}")


def checked(connection, request):
    """The ways through both servers must give the same number of rows."""
    rows = connection.answer(request)["rows"]
    if len(rows) != ROWS:
        raise Failure(f"the view has {len(rows)} rows of a key, not {ROWS}")


def point(plan):
    count, seconds = plan.scaled(100_000), plan.seconds(3)
    groups = count // ROWS
    rounds = max(3, plan.rounds)
    found = {"view": [], "expression": [], "columns": []}
    with ViewNode(plan.server_core, megabytes=1024) as node, Postgres(plan.server_core) as peer:
        plan.say(f"point: {count:,} documents")
        node.load(grouped_documents(count))
        node.design({"groups": "function (doc, meta) { emit(doc.group, null); }"})
        node.await_built("groups")
        with peer.connection() as session, node.connection() as connection:
            fill(session, count)
            ask = {
                "view": (
                    connection.exchange, node.pid,
                    endless(lambda key: connection.query("groups", stale="ok", key=key), groups)),
                "expression": (
                    session.exchange, session.pid,
                    endless(lambda key: session.query(EXPRESSION.format(key)), groups)),
                "columns": (
                    session.exchange, session.pid,
                    endless(lambda key: session.query(COLUMNS.format(key)), groups)),
            }
            checked(connection, connection.query("groups", stale="ok", key=groups - 1))
            for name, (exchange, pid, requests) in ask.items():
                measured(exchange, requests, seconds / 4, pid)
            for number in range(rounds):
                plan.say(f"point: round {number + 1} of {rounds}")
                for name, (exchange, pid, requests) in ask.items():
                    found[name].append(measured(exchange, requests, seconds, pid))
        release = peer.release()
    cost = {name: [each[1] for each in results] for name, results in found.items()}
    rate = {name: statistics.median(each[0] for each in results) for name, results in found.items()}
    ratios = [ours / theirs for ours, theirs in zip(cost["view"], cost["expression"], strict=True)]
    median = {name: statistics.median(values) for name, values in cost.items()}
    return [figure(
        "10 rows by key, server CPU of a query against PostgreSQL's", statistics.median(ratios),
        "x", 2, 1, note=(
            f"{median['view']:.0f} us over HTTP against {median['expression']:.0f} us by the simple "
            f"protocol of PostgreSQL {release} with an expression index on the same "
            f"{grouped(count)} documents (jsonb), {min(ratios):.2f} to {max(ratios):.2f} in {rounds} "
            f"alternating rounds; {median['columns']:.0f} us if the rows are a table whose index "
            f"has all columns; one connection, {rate['view']:.0f}, {rate['expression']:.0f} and "
            f"{rate['columns']:.0f} queries/s, server and driver on a core each"))]
