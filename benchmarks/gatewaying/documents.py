"""A client that pulls all documents, and the private memory of a document."""

import json
import time
from contextlib import ExitStack

from comparison.servers import Failure

from .client import Connection, Load, on_core
from .rounds import cheaper, faster, sample
from .servers import DATABASE, request
from .writes import BULK_CONNECTIONS, BULK_DOCUMENTS, USER, batches

DOCUMENTS = 100_000
BODY_BYTES = 300
PAGE = 1_000
# Memory has its size when it did not change for so long.
SETTLED_SECONDS = 3


def fill(plan, gateway, count):
    """Writes the documents; returns the private memory of one in bytes."""
    before = gateway.private_bytes()
    with on_core(plan.driver_core):
        load = Load(gateway.admin, BULK_CONNECTIONS, batches(count, BODY_BYTES))
        try:
            load.run()
        finally:
            load.close()
    time.sleep(SETTLED_SECONDS)
    memory = (gateway.private_bytes() - before) / count
    # The grants of all documents are collected before the first pull.
    gateway.log_in(USER)
    return memory


def bulk_get(rows):
    docs = ",".join(f'{{"id":"{row["id"]}","rev":"{row["changes"][0]["rev"]}"}}' for row in rows)
    return request("POST", f"/{DATABASE}/_bulk_get?revs=true&attachments=true",
                   b'{"docs":[' + docs.encode() + b"]}", USER, ["Accept: multipart/mixed"])


def pull(gateway):
    """Pulls everything: a page of changes is requested while the documents of the last one come.

    Returns the number of documents.
    """
    found = []
    changes = Connection(gateway.port)
    ask_for_page(changes, 0)
    page = receive_page(changes)
    # A connection without a request would be closed while the first page is read.
    load = Load(gateway.port, BULK_CONNECTIONS, (), wanted=200,
                seen=lambda body: found.append(body.count(b'"_revisions"')))
    try:
        while page["results"]:
            ask_for_page(changes, page["last_seq"])
            rows = [row for row in page["results"] if not row["id"].startswith("_")]
            load.requests = map(bulk_get, (
                rows[at:at + BULK_DOCUMENTS] for at in range(0, len(rows), BULK_DOCUMENTS)))
            load.run()
            page = receive_page(changes)
        return sum(found)
    finally:
        changes.close()
        load.close()


def ask_for_page(changes, since):
    changes.send(request(
        "GET", f"/{DATABASE}/_changes?feed=normal&style=all_docs&limit={PAGE}&since={since}",
        user=USER))


def receive_page(changes):
    while (answer := changes.receive()) is None:
        pass
    return json.loads(answer[1])


def measure(plan, gateway, count):
    with on_core(plan.driver_core):
        began, used, own = time.monotonic(), gateway.cpu_seconds(), time.process_time()
        pulled = pull(gateway)
        seconds = time.monotonic() - began
        used, own = gateway.cpu_seconds() - used, time.process_time() - own
    if pulled != count:
        raise Failure(f"{gateway.name} sent {pulled} documents of {count}")
    return sample(gateway, count, seconds, used, own)


def documents(plan):
    """Both gateways have the documents and are asked in turns: writing them takes longer than a pull."""
    count = plan.scaled(DOCUMENTS)
    with ExitStack() as stack:
        gateways, memory = {}, {}
        for kind in plan.kinds:
            plan.say(f"documents: writing to {kind}")
            gateways[kind] = stack.enter_context(plan.server(kind))
            memory[kind] = [{"bytes": fill(plan, gateways[kind], count)}]
        found = {kind: [] for kind in plan.kinds}
        for number in range(plan.rounds):
            for kind in plan.kinds:
                plan.say(f"documents: round {number + 1}, {kind}")
                found[kind].append(measure(plan, gateways[kind], count))
    shown = f"{count:,} documents of {BODY_BYTES} bytes".replace(",", " ")
    return [
        faster(f"one client pulls {shown}", found, "documents", 2.5, 6,
               note=f"; pages of {PAGE} changes and _bulk_get of {BULK_DOCUMENTS}, "
               f"{BULK_CONNECTIONS} in flight, with one start of each gateway"),
        cheaper(f"private memory of one of {shown}", memory, "bytes", "B", 1.0, 0.5),
    ]
