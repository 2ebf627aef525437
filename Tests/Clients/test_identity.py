"""The peer port accepts a node by its key in the agreed state, and by nothing else."""

import re
import shutil
import struct

import pytest

from cluster import Cluster, Member
from rig import peer
from rig.node import PORT_FLAGS, wait_until
from rig.wire import Op, Status
from test_cluster_lifecycle import is_unprovisioned

BUCKET = "travel"


@pytest.fixture(scope="module")
def cluster():
    """Three nodes, of which the last was removed; and a copy of its directory from before."""
    with Cluster(3) as made:
        for number in (1, 2):
            made.add(number)
        made.rebalance()
        made[0].create_bucket(BUCKET, ramQuotaMB=100, replicaNumber=1, numVBuckets=64)
        assert made[2].stop() == 0
        copy = made[2].data.parent / "copy"
        shutil.copytree(made[2].data, copy)
        made[2].start()
        made.await_healthy()
        made.rebalance(eject=[2])
        wait_until(lambda: is_unprovisioned(made[2]), 20, "it has left")
        made.copy = copy
        yield made


def peer_of(cluster, number):
    """The identity of a member, as a copy of its directory has it."""
    return peer.Identity(cluster[number].data)


def test_member_is_accepted_by_its_key_alone(cluster):
    identity = peer_of(cluster, 1)
    assert peer.greet(cluster[0], identity, service=peer.EPOCH) == (peer.ANSWER, None)
    # The two nodes have a connection, and the one of the lower number stays.
    assert peer.greet(cluster[0], identity) == (peer.REFUSAL, peer.CONNECTED)
    stranger = bytes(range(32))
    for service in (peer.MAIN, peer.BULK, peer.EPOCH):
        refused = peer.greet(cluster[0], identity, seed=stranger, service=service)
        assert refused == (peer.REFUSAL, peer.WRONG_KEY)


def test_member_cannot_claim_the_number_of_another_member(cluster):
    """A copy of a member's directory has its key, and what the cluster agreed on."""
    identity = peer_of(cluster, 1)
    for service in (peer.MAIN, peer.EPOCH):
        claimed = peer.greet(cluster[1], identity, number=1, expected=2, service=service)
        assert claimed == (peer.REFUSAL, peer.WRONG_KEY)
        assert peer.greet(cluster[0], identity, number=9, service=service)[0] == peer.REFUSAL
    assert "does not have the key of the member" in cluster[1].log()


def test_removed_node_is_refused_as_removed_by_every_service(cluster):
    identity = peer.Identity(cluster.copy)
    for service in (peer.MAIN, peer.BULK, peer.EPOCH):
        refused = peer.greet(cluster[0], identity, service=service)
        assert refused == (peer.REFUSAL, peer.REMOVED)
        # It knows the number and the UUID of everybody.
        other = peer.greet(cluster[0], identity, number=2, service=service)
        assert other == (peer.REFUSAL, peer.WRONG_KEY)


@pytest.mark.parametrize("is_same_address", [True, False])
def test_copy_of_a_removed_nodes_directory_becomes_a_new_node(cluster, is_same_address):
    if is_same_address:
        assert cluster[2].stop() == 0
    ports = [cluster[2].flag(name) for name in PORT_FLAGS] if is_same_address else None
    member = Member(ports)
    try:
        shutil.rmtree(member.data, ignore_errors=True)
        shutil.copytree(cluster.copy, member.data)
        member.start()
        wait_until(lambda: is_unprovisioned(member), 20, "it has left")
        assert "This node was removed from its cluster" in member.log()
        assert len(cluster.nodes()) == 2
    finally:
        member.close()
        if is_same_address:
            cluster[2].start()


def test_salts_stay_when_the_shared_secret_is_replaced(cluster):
    """A name without a user has the same salt on every node and for ever, like a user."""

    def salts():
        found = set()
        for member in (cluster[0], cluster[1]):
            with member.connect() as connection:
                challenge = connection.call(
                    Op.SASL_AUTH, "SCRAM-SHA512", value=b"n,,n=unknown,r=abc", vbucket=0
                )
                assert challenge.status == Status.AUTH_CONTINUE, challenge
                found.add(re.search(rb",s=([^,]+)", challenge.value)[1])
        return found

    before = salts()
    assert len(before) == 1
    reply = cluster[1].admin.post("/controller/rotateSecrets")
    assert reply.status == 200, reply
    assert "shared secret was replaced" in cluster[1].log()
    assert salts() == before


def test_client_that_asks_for_short_records_costs_nothing(cluster):
    """The answers to many pings of one packet are longer than such a record."""
    ping = struct.pack(">IQB", 0, 0, 6)
    hello = peer.hello(peer_of(cluster, 1), service=peer.JOIN, expected=0)
    answer = peer.ask_for_short_records(cluster[0], bytes(range(32)), hello + 100 * ping)
    assert answer.startswith(b"DVNP") and len(answer) > 1_000, answer
    answered = peer.greet(cluster[0], peer_of(cluster, 1), service=peer.EPOCH)
    assert answered == (peer.ANSWER, None)
    assert cluster[0].is_running
