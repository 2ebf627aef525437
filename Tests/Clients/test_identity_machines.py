"""Identities of nodes on machines of their own: what passes between them, and machines in between."""

import http.server
import json
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from cluster import Cluster, Member
from rig import network as rig_network
from rig import peer
from rig.capture import Capture
from rig.node import PASSWORD, USER, wait_until
from test_cluster_lifecycle import is_unprovisioned

NAMES = ("db1", "db2", "db3")
PORTS = (11210, 8091, 8092, 21100)
BUCKET = "travel"
KEY, VALUE = "the-key-of-a-document", "the-value-of-a-document"


@pytest.fixture
def machines():
    with rig_network.opened(NAMES) as network:
        yield network


def member(network, name, **options):
    return Member(
        PORTS,
        host=network.addresses[name],
        prefix=network.command(name),
        flags=("--bind", "0.0.0.0"),
        **options,
    )


def write(node, count):
    for number in range(count):
        path = f"/pools/default/buckets/{BUCKET}/docs/{KEY}-{number}"
        assert node.admin.post(path, {"value": json.dumps({"text": VALUE * 8})}).status == 200


def test_traffic_between_nodes_contains_no_document_and_no_key(machines):
    """Also while a node is removed, and added again with another key and token."""
    capture = Capture(machines, "db3")
    members = [member(machines, name) for name in NAMES]
    secrets = [KEY.encode(), VALUE.encode(), PASSWORD.encode()]

    def learn():
        for each in members:
            secrets.append(peer.Identity(each.data).seed)
            if each.token:
                secrets.extend([each.token.encode(), bytes.fromhex(each.token)])

    try:
        with Cluster(members) as cluster:
            learn()
            tokens = [each.token for each in members]
            for number in (1, 2):
                cluster.add(number)
            cluster[0].create_bucket(BUCKET, ramQuotaMB=100, replicaNumber=2, numVBuckets=64)
            cluster.rebalance()
            write(cluster[2], 64)
            cluster.rebalance(eject=[2])
            wait_until(lambda: is_unprovisioned(cluster[2]) and cluster[2].token, 20, "it has left")
            learn()
            assert cluster[2].token not in tokens
            used, other = tokens[2], tokens[1]
            for wrong in (used, other):
                reply = cluster[0].admin.post(
                    "/controller/addNode",
                    {"hostname": cluster[2].address, "user": "", "password": wrong},
                )
                assert reply.status == 400 and "not the token" in reply.text, reply
            cluster.add(2)
            cluster.rebalance()
            cluster.await_healthy()
            write(cluster[2], 8)
            learn()
    finally:
        capture.close()
    ours = machines.addresses
    to_client = capture.between(ours["client"], ours["db3"])
    assert KEY.encode() in to_client and VALUE.encode() in to_client, "the capture sees content"
    for other in ("db1", "db2"):
        seen = capture.between(ours[other], ours["db3"])
        assert len(seen) > 20_000, (other, len(seen))
        for secret in secrets:
            assert secret not in seen, (other, secret)
    assert capture.ports[(ours["db1"], ours["db3"]), PORTS[3]] > 10_000


# A machine between two nodes


class Between:
    """A machine that says it is the waiting node, and forwards what it opens to that node."""

    def __init__(self, network, waiting, seed):
        self.waiting, self.seed = waiting, seed
        self.fingerprint = waiting.anonymous.get("/nodes/self/peer").json["fingerprint"]
        with peer.certificate(seed) as both:
            self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.server.load_cert_chain(both)
        self.listener = socket.create_server(("0.0.0.0", 0))
        self.forwarded = 0
        answer = {"port": self.listener.getsockname()[1], "fingerprint": self.fingerprint}

        class Admin(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.admin = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Admin)
        self.address = f"{network.addresses['client']}:{self.admin.server_address[1]}"
        for work in (self.admin.serve_forever, self._accept):
            threading.Thread(target=work, daemon=True).start()

    def _accept(self):
        while True:
            try:
                caller, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller):
        try:
            near = self.server.wrap_socket(caller, server_side=True)
            plain = socket.create_connection(peer.place(self.waiting), timeout=10)
            far = peer.context(self.seed).wrap_socket(plain)
            pump = threading.Thread(target=self._pump, args=(far, near), daemon=True)
            pump.start()
            self._pump(near, far)
        except OSError:
            caller.close()

    def _pump(self, source, sink):
        try:
            while data := source.recv(4096):
                self.forwarded += len(data)
                sink.sendall(data)
        except OSError:
            pass

    def close(self):
        self.admin.shutdown()
        self.admin.server_close()
        self.listener.close()


def test_machine_that_forwards_between_two_nodes_is_refused(machines):
    cluster, waiting = (member(machines, name) for name in NAMES[:2])
    try:
        cluster.start().provision(512)
        waiting.start()
        between = Between(machines, waiting, bytes(range(32)))
        try:
            form = {"hostname": between.address, "user": "", "password": waiting.token}
            reply = cluster.admin.post("/controller/addNode", form)
            assert reply.status == 400 and "not the token" in reply.text, reply
            assert between.forwarded > 0
            assert "had no proof of the node's token" in waiting.log()
            assert machines.addresses["client"] in waiting.log()
            sent = between.forwarded
            form["fingerprint"] = between.fingerprint
            reply = cluster.admin.post("/controller/addNode", form)
            assert reply.status == 400 and "not the one that was named" in reply.text, reply
            assert between.address.split(":")[0] in cluster.log()
            # The waiting node is asked for the greeting of a stranger at most, and proves nothing.
            assert between.forwarded - sent < 1_000
            # A login of the cluster is not sent to such a machine either.
            join = {"hostname": between.address, "user": USER, "password": PASSWORD}
            join["fingerprint"] = between.fingerprint
            reply = waiting.newcomer.post("/node/controller/doJoinCluster", join)
            assert reply.status == 400 and "not the one that was named" in reply.text, reply
            assert len(cluster.admin.get("/pools/default").json["nodes"]) == 1
            assert waiting.anonymous.get("/pools").json["pools"] == []
        finally:
            between.close()
    finally:
        for node in (cluster, waiting):
            node.close()


# Addresses and clocks


def test_members_with_swapped_addresses_are_distinguished_by_their_keys():
    with Cluster(3) as cluster:
        for number in (1, 2):
            cluster.add(number)
        cluster.rebalance()
        cluster[0].create_bucket(BUCKET, ramQuotaMB=100, replicaNumber=1, numVBuckets=64)
        write(cluster[0], 32)
        one, other = cluster[1], cluster[2]
        for each in (one, other):
            assert each.stop() == 0
        one.data, other.data = other.data, one.data
        before = {each: peer.Identity(each.data).number for each in (one, other)}
        for each in (one, other):
            each.start()
        cluster.await_healthy(seconds=60)

        def are_known():
            nodes = cluster.nodes()
            return all(
                nodes.get(each.address, {}).get("fingerprint")
                == each.anonymous.get("/nodes/self/peer").json["fingerprint"]
                for each in (one, other)
            )

        wait_until(are_known, 30, "the state has the swapped addresses")
        assert before == {each: peer.Identity(each.data).number for each in (one, other)}
        for number in range(32):
            path = f"/pools/default/buckets/{BUCKET}/docs/{KEY}-{number}"
            assert cluster[0].admin.get(path).status == 200, number
        assert "was refused as a node: it does not have the key of" in cluster.logs()


CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static time_t years(void) { return atol(getenv("CLOCK_SECONDS")); }
int clock_gettime(clockid_t id, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) now->tv_sec += years();
    return result;
}
time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *restrict to, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    to->tv_sec = now.tv_sec;
    to->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"""
YEAR = 365 * 86_400


def test_members_with_clocks_years_apart_form_a_cluster(tmp_path):
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("NOT TESTED: no C compiler for a shifted clock")
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(CLOCK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    members = [
        Member(prefix=["env", f"LD_PRELOAD={library}", f"CLOCK_SECONDS={years * YEAR}"])
        for years in (0, 30, -25)
    ]
    with Cluster(members) as cluster:
        for number in (1, 2):
            cluster.add(number)
        cluster.rebalance()
        cluster[0].create_bucket(BUCKET, ramQuotaMB=100, replicaNumber=1, numVBuckets=64)
        write(cluster[1], 32)
        assert cluster[2].admin.post("/controller/rotateSecrets").status == 200
        # Each node connects to each other one anew.
        for number in range(3):
            assert cluster[number].stop() == 0
            cluster[number].start()
            cluster.await_healthy(at=(number + 1) % 3)
        logs = [each["serverTime"] for each in cluster[0].admin.get("/logs").json["list"]]
        assert len({text[:4] for text in logs}) > 1, "the clocks of the nodes are years apart"
        cluster.rebalance(eject=[2])
        wait_until(lambda: is_unprovisioned(cluster[2]), 20, "it has left")
