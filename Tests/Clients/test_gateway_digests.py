"""Revision ids of documents of every form of JSON: those of the real Sync Gateway 1.4.1."""

import json
import pathlib

import pytest

from gateway import digests
from gateway.driver import Connection
from rig.divan_gateway import DivanGateway

RECORD = pathlib.Path(__file__).parent / "gateway/digests-1.4.1.jsonl.gz"
BATCH = 100
CONFIGURATION = '{"log": [], "databases": {"db": {"server": "walrus:"}}}'


@pytest.fixture(scope="module")
def record():
    return digests.recorded(RECORD)


@pytest.fixture
def connection(tmp_path):
    """A connection to the administration port of a gateway with an empty database."""
    path = tmp_path / "gateway.json"
    path.write_text(CONFIGURATION)
    with DivanGateway(path) as gateway:
        connection = Connection(("127.0.0.1", gateway.admin_port))
        yield connection
        connection.close()


def bulk(connection, bodies):
    """The rows that `_bulk_docs` answers to bodies, which are sent as they are."""
    body = ('{"docs":[' + ",".join(bodies) + "]}").encode()
    head = "POST /db/_bulk_docs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection.send(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    answer = connection.head()
    connection.read_body(answer, "POST")
    assert answer.status == 201, answer
    return json.loads(answer.body)


def with_id(write, parent):
    """The body of a write as `_bulk_docs` needs it: with `_id`."""
    body = write.body(parent)
    return f'{{"_id":"{write.id}"' + ("," if body != "{}" else "") + body[1:]


def test_record_has_updates_deletions_and_documents_made_anew(record):
    rounds = [write.round for write, _ in record]
    assert rounds.count(digests.CREATE) == digests.DOCUMENTS
    assert min(map(rounds.count, (digests.UPDATE, digests.DELETE, digests.REVIVE))) >= 90
    generations = {int(revision.split("-")[0]) for _, revision in record}
    assert generations == {1, 2, 3, 4}


def test_bodies_of_all_forms_get_the_revision_ids_of_sync_gateway(connection, record):
    parents, differing, lost = {}, [], set()
    for round in (digests.CREATE, digests.UPDATE, digests.DELETE, digests.REVIVE):
        # The children of a revision that differs would differ too, and show nothing.
        here = [pair for pair in record if pair[0].round == round and pair[0].id not in lost]
        for at in range(0, len(here), BATCH):
            batch = here[at : at + BATCH]
            bodies = [with_id(write, parents.get(write.id)) for write, _ in batch]
            for (write, expected), row in zip(batch, bulk(connection, bodies), strict=True):
                parents[write.id] = expected
                if row.get("rev") != expected:
                    differing.append((write.body(), expected, row))
                    lost.add(write.id)
    assert differing == [], f"{len(differing)} differ"
