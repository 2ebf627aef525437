"""The objects that docs/compatibility.md limits, each made as a client makes it."""

import json
import resource
import time

from comparison.servers import Failure, connect

from .node import require

VIEWS_PER_DOCUMENT = 200
LARGEST_DOCUMENT = 1 << 20
RETRIES = 100


def put(node, connection, name, views):
    """Stores a design document; a node that has just made the bucket may not have it yet."""
    body = json.dumps({"views": views})
    for _ in range(RETRIES):
        request = connection.prepared("PUT", f"/limits/_design/{name}", body)
        status, text = connection.exchange(request)
        if status not in (404, 503):
            break
        time.sleep(0.1)
    require(status, 201, text, f"design document {name}")


def bucket(node):
    node.create("limits")


def views(node, count):
    """Views with map functions of their own, of one bucket without documents."""
    with node.connection() as connection:
        for first in range(0, count, VIEWS_PER_DOCUMENT):
            numbers = range(first, min(count, first + VIEWS_PER_DOCUMENT))
            put(node, connection, f"d{first}", {
                f"v{number}": {"map": f"function (doc, meta) {{ emit(meta.id, {number}); }}"}
                for number in numbers
            })


def design_bytes(node, count):
    """`count` bytes of design documents, of a view each: the longest sources."""
    with node.connection() as connection:
        number = 0
        while count > 0:
            size = min(count, LARGEST_DOCUMENT)
            head = "function (doc, meta) { emit(meta.id, null); } // "
            # Four views, each below the limit of a source.
            views, left = {}, size - 1_000
            for part in range(4):
                text = head + chr(97 + number) * (left // 4 - len(head) - 100)
                views[f"v{part}"] = {"map": text + str(part)}
            put(node, connection, f"d{number}", views)
            count -= size
            number += 1


def users(node, count):
    for number in range(count):
        node.put_user(f"user{number}")


def buckets(node, count):
    for number in range(count):
        node.create(f"limits-{number}")


def connections(node, count):
    """Connections to the data port without a request; the caller closes them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 100:
        raise Failure(f"{count} connections need more descriptors than {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return [connect(node.port) for _ in range(count)]
