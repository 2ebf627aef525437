"""Writes with the sync function: documents one by one, and in batches.

They come over the administration port. Each document grants channels to its owner; when the owner writes the
next one, Sync Gateway 3.x collects all grants again, so that a write costs in proportion to the documents
before it: 4 ms of processor time with 100 documents, 16 ms with 600.
"""

import time

from .client import Load, on_core
from .rounds import faster, sample
from .servers import DATABASE, request

USER = "jane"
CONNECTIONS = 16
BULK_CONNECTIONS = 4
BULK_DOCUMENTS = 100
BODY_BYTES = 1_024
# Numbers of documents begin here, so that all have as many digits.
FIRST = 1_000_000


def template(size, owner=USER, tag="note"):
    """A document of `size` bytes with fields and a text; its number is `FIRST`."""
    head = (f'{{"tag":"{tag}","owner":"{owner}","number":{FIRST},"done":false,'
            '"created":"2026-11-30T12:00:00Z","text":"')
    text = "The quick brown fox jumps over the lazy dog. " * (size // 45 + 1)
    return (head + text[:size - len(head) - 2] + '"}').encode()


def numbered(text, number):
    return text.replace(b"%d" % FIRST, b"%d" % (FIRST + number), 1)


def single():
    """PUTs of new documents, without end."""
    text = template(BODY_BYTES)
    before, after = request("PUT", f"/{DATABASE}/NAME", text).split(b"NAME")
    number = 0
    while True:
        number += 1
        yield b"%bd%08d%b" % (before, number, numbered(after, number))


def batches(count=None, size=BODY_BYTES):
    """Requests of `_bulk_docs` with new documents; without a count they do not end."""
    text = template(size - len(',"_id":"d00000000"'))
    number = 0
    while count is None or number < count:
        documents = []
        for _ in range(BULK_DOCUMENTS):
            number += 1
            documents.append(b'{"_id":"d%08d",%b' % (number, numbered(text, number)[1:]))
        body = b'{"docs":[' + b",".join(documents) + b"]}"
        yield request("POST", f"/{DATABASE}/_bulk_docs", body)


def measure(plan, server, width, requests, documents):
    """One round with a fresh gateway; each request writes so many documents."""
    with server as gateway, on_core(plan.driver_core):
        load = Load(gateway.admin, width, requests)
        try:
            load.run(plan.seconds(1))
            began, used, own = time.monotonic(), gateway.cpu_seconds(), time.process_time()
            count = documents * load.run(plan.seconds(4))
            seconds = time.monotonic() - began
            used, own = gateway.cpu_seconds() - used, time.process_time() - own
            return sample(gateway, count, seconds, used, own)
        finally:
            load.close()


def put(plan):
    found = plan.alternate("put", lambda server: measure(plan, server, CONNECTIONS, single(), 1))
    return [faster(f"PUT of 1 KiB, {CONNECTIONS} connections", found, "documents", 1.5, 8)]


def bulk(plan):
    found = plan.alternate("bulk", lambda server: measure(
        plan, server, BULK_CONNECTIONS, batches(), BULK_DOCUMENTS))
    return [faster(
        f"_bulk_docs of {BULK_DOCUMENTS} documents of 1 KiB, {BULK_CONNECTIONS} connections", found,
        "documents", 3, 10)]
