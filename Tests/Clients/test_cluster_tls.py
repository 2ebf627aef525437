"""TLS in a cluster: one authority for all nodes, and another one after a node was removed."""

import datetime
import shutil
import ssl
import threading

from couchbase.auth import PasswordAuthenticator
from couchbase.cluster import Cluster as SDK
from couchbase.options import ClusterOptions

from cluster import made
from rig import tls
from rig.node import PASSWORD, USER, wait_until

REGENERATE = "/controller/regenerateCertificate"


def authorities(node):
    return [each["pem"] for each in node.admin.get("/pools/default/trustedCAs").json]


def accepts(node, authority):
    """Whether a client that trusts the authority accepts the node's certificate."""
    try:
        return tls.admin(node, tls.context(authority)).get("/pools").status == 200
    except ssl.SSLCertVerificationError:
        return False


class Traffic(threading.Thread):
    """The Python client over TLS: writes and reads until it is stopped, and keeps its errors."""

    def __init__(self, cluster, authority, path):
        super().__init__(daemon=True)
        path.write_text(authority)
        places = ",".join(f"{each.host}:{each.ready['kv_tls']}" for each in cluster.members)
        login = PasswordAuthenticator(USER, PASSWORD, cert_path=str(path))
        self.sdk = SDK(f"couchbases://{places}", ClusterOptions(login))
        self.sdk.wait_until_ready(datetime.timedelta(seconds=20))
        self.documents = self.sdk.bucket("travel").default_collection()
        self.stopping = threading.Event()
        # Another client writes keys of its own.
        self.prefix = path.stem
        self.errors = []
        self.count = 0

    def run(self):
        while not self.stopping.is_set():
            key = f"{self.prefix}-{self.count % 500}"
            try:
                self.documents.upsert(key, {"number": self.count})
                if self.documents.get(key).content_as[dict] != {"number": self.count}:
                    self.errors.append(f"{key} is not {self.count}")
            except Exception as error:
                self.errors.append(repr(error))
            self.count += 1

    def end(self):
        self.stopping.set()
        self.join(30)
        self.sdk.close()


def test_failover_rebalance_and_changes_of_certificates_cause_no_error_of_a_client(start, tmp_path):
    cluster = start(made, 3, ["travel"])
    authority = tls.authority(cluster[0])
    for node in cluster.members:
        wait_until(lambda node=node: accepts(node, authority), 20, "one authority for all nodes")
    listed = cluster[0].admin.get("/pools/default/certificates").json
    assert {each["node"] for each in listed} == {each.address for each in cluster.members}
    traffic = Traffic(cluster, authority, tmp_path / "authority.pem")
    traffic.start()
    try:
        wait_until(lambda: traffic.count > 200, 30, "traffic")
        form = {"otpNode": cluster.name(2)}
        assert cluster[0].admin.post("/controller/startGracefulFailover", form).status == 200
        cluster.await_rebalance()
        cluster.rebalance([2])
        after = wait_until(
            lambda: len(authorities(cluster[0])) == 2 and authorities(cluster[0])[0], 20, "a second authority"
        )
        # Both are trusted, and certificates come from the new one at once. Clients need not be told yet.
        assert after != authority and authorities(cluster[1])[1] == authority
        for node in cluster.members[:2]:
            wait_until(lambda node=node: accepts(node, after), 10, "a certificate of the new one")
            assert accepts(node, authority)
        late = Traffic(cluster, authority, tmp_path / "former.pem")
        late.start()
        wait_until(lambda: late.count > 100, 30, "traffic of a client with the former authority")
        late.end()
        assert not late.errors, late.errors[:3]
        count = traffic.count
        wait_until(lambda: traffic.count > count + 200, 30, "traffic goes on")
    finally:
        traffic.end()
    assert not traffic.errors, traffic.errors[:3]
    assert cluster[1].admin.post(REGENERATE).text == after
    assert authorities(cluster[0]) == [after]
    for node in cluster.members[:2]:
        wait_until(lambda node=node: not accepts(node, authority), 10, "the former one is refused")
        assert accepts(node, after)


def test_order_to_one_node_ends_the_certificates_of_operators_on_all(start, tmp_path):
    cluster = start(made, 2, ["travel"])
    issuer = tls.Issuer(tmp_path, "operator")
    wait_until(lambda: accepts(cluster[1], tls.authority(cluster[0])), 20, "one authority for both nodes")
    assert tls.supply(cluster[1], issuer).status == 200
    assert accepts(cluster[1], issuer.pem)

    def kinds():
        listed = cluster[0].admin.get("/pools/default/certificates").json
        return {each["node"]: each["type"] for each in listed}

    assert kinds() == {cluster[0].address: "generated", cluster[1].address: "uploaded"}
    (loaded,) = [
        each for each in cluster[0].admin.get("/pools/default/trustedCAs").json if each["type"] == "uploaded"
    ]
    # The node that needs it is another one than the one that is asked.
    reply = cluster[0].admin.delete(f"/pools/default/trustedCAs/{loaded['id']}")
    assert reply.status == 400 and "needs this CA" in reply.json
    # An authority of the same name that has signed nothing is not needed.
    (tmp_path / "other").mkdir()
    namesake = tls.Issuer(tmp_path / "other", "operator")
    tls.fill_inbox(cluster[0], authorities={"namesake.pem": namesake.pem})
    assert cluster[0].admin.post(tls.LOAD).status == 200
    listed = cluster[0].admin.get("/pools/default/trustedCAs").json
    (other,) = [each["id"] for each in listed if each["pem"] == namesake.pem]
    assert cluster[0].admin.delete(f"/pools/default/trustedCAs/{other}").status == 200
    cluster[1].stop()
    reply = cluster[0].admin.post(REGENERATE + "?dropUploadedCertificates=true")
    assert reply.status != 200 and cluster.name(1) in reply.text, reply
    cluster[1].start()
    after = wait_until(
        lambda: (reply := cluster[0].admin.post(REGENERATE + "?dropUploadedCertificates=true")).status == 200
        and reply.text, 20, "the other node answers again",
    )
    wait_until(lambda: accepts(cluster[1], after), 10, "a certificate of the cluster")
    assert set(kinds().values()) == {"generated"}
    assert cluster[0].admin.delete(f"/pools/default/trustedCAs/{loaded['id']}").status == 200


def test_copy_of_a_removed_node_has_no_certificate_that_the_new_authority_signed(start, make_node):
    cluster = start(made, 2, ["travel"])
    before = tls.authority(cluster[0])
    wait_until(lambda: accepts(cluster[1], before), 20, "one authority for both nodes")
    cluster[1].stop()
    copy = make_node(directory=None)
    shutil.copytree(cluster[1].data, copy.data)
    cluster[1].start()
    wait_until(lambda: cluster.membership(1) == "active" and not [
        each for each in cluster.nodes().values() if each["status"] != "healthy"
    ], 30, "the node serves again")
    cluster.rebalance([1])
    after = wait_until(
        lambda: len(authorities(cluster[0])) == 2 and authorities(cluster[0])[0], 20, "a second authority"
    )
    cluster[1].kill()
    copy.start()
    assert accepts(cluster[0], after) and not accepts(copy, after)
    # The removed node itself has no authority of the cluster any more.
    cluster[1].start()
    wait_until(lambda: not accepts(cluster[1], before), 20, "the removed node has left")
    assert not accepts(cluster[1], after)
