"""TLS on the ports of clients: the cluster's certificates, an operator's, and those of clients."""

import contextlib
import datetime
import json
import os
import socket
import ssl
import subprocess

import pytest
from couchbase.auth import CertificateAuthenticator, PasswordAuthenticator
from couchbase.cluster import Cluster as SDK
from couchbase.options import ClusterOptions

from rig import tls
from rig.delays import wrong_clock
from rig.node import PASSWORD, ROOT, SERVER, TLS_FLAGS, USER, Node
from rig.wire import Closed, Connection, Op

CERTIFICATES = "/pools/default/certificates"
SECURITY = "/settings/security"
AUTH = "/settings/clientCertAuth"


@pytest.fixture(scope="module")
def trusted(node):
    """A context that trusts the authority of the shared node's cluster, and nothing else."""
    return tls.context(tls.authority(node))


@pytest.fixture
def own(make_node):
    """A provisioned node of the test's own, with a bucket."""
    node = make_node().start().provision()
    return node.create_bucket("travel")


@pytest.fixture
def issuer(tmp_path):
    return tls.Issuer(tmp_path, "operator")


def sdk(node, authority, authenticator=None, port=None):
    path = node.directory / "authority.pem"
    path.write_text(authority)
    login = authenticator or PasswordAuthenticator(USER, PASSWORD, cert_path=str(path))
    cluster = SDK(f"couchbases://{node.host}:{port or node.ready['kv_tls']}", ClusterOptions(login))
    cluster.wait_until_ready(datetime.timedelta(seconds=15))
    return cluster


def reads_and_writes(cluster, bucket="travel"):
    documents = cluster.bucket(bucket).default_collection()
    documents.upsert("over-tls", {"number": 1})
    return documents.get("over-tls").content_as[dict] == {"number": 1}


def handshake(node, *options, port="kv_tls"):
    """The output of the stock client, and whether the handshake succeeded."""
    place = f"{node.host}:{node.ready[port]}"
    run = subprocess.run(
        ["openssl", "s_client", "-brief", "-connect", place, *options],
        input=b"", capture_output=True, timeout=20,
    )  # fmt: skip
    return (run.stdout + run.stderr).decode(errors="replace"), run.returncode == 0


# The cluster's certificates


def test_sdk_connects_with_the_authority_of_the_cluster_alone(node, bucket):
    cluster = sdk(node, tls.authority(node))
    assert reads_and_writes(cluster, bucket)
    cluster.close()


def test_client_without_the_authority_refuses_the_certificate(node):
    with pytest.raises(ssl.SSLCertVerificationError):
        tls.connect(node, tls.context())


def test_every_port_proves_the_certificate_for_its_names(node, trusted, tmp_path):
    file = tmp_path / "authority.pem"
    file.write_text(tls.authority(node))
    for port in ("kv_tls", "admin_tls", "views_tls"):
        for version in ("-tls1_2", "-tls1_3"):
            text, isDone = handshake(
                node, version, "-CAfile", file, "-verify_return_error", "-verify_ip", "127.0.0.1",
                port=port,
            )  # fmt: skip
            assert isDone and "Verification: OK" in text, text
    names = ("localhost", "127.0.0.1")
    for port, path in (("admin_tls", "/pools"), ("views_tls", "/")):
        for name in names:
            answer = subprocess.run(
                ["curl", "-sS", "--cacert", file, f"https://{name}:{node.ready[port]}{path}"],
                capture_output=True, timeout=20, check=True,
            )  # fmt: skip
            assert answer.stdout, answer


def test_older_versions_of_tls_are_refused(node):
    text, isDone = handshake(node, "-tls1_1", "-cipher", "ALL@SECLEVEL=0")
    assert not isDone and "protocol version" in text, text


def test_configurations_announce_the_ports_that_listen(node, bucket, trusted):
    services = tls.admin(node, trusted).get("/pools/default/nodeServices").json["nodesExt"][0]
    announced = services["services"]
    assert announced["kvSSL"] == node.ready["kv_tls"]
    assert announced["mgmtSSL"] == node.ready["admin_tls"]
    assert announced["capiSSL"] == node.ready["views_tls"]
    own = node.admin.get("/pools/default").json["nodes"][0]
    assert own["ports"]["httpsMgmt"] == node.ready["admin_tls"]
    assert own["ports"]["httpsCAPI"] == node.ready["views_tls"]
    assert own["couchApiBaseHTTPS"].startswith("https://127.0.0.1:")


def test_node_without_tls_announces_no_port(make_node):
    node = make_node("--no-tls").start().provision()
    assert node.ready["kv_tls"] is None and node.ready["admin_tls"] is None
    services = node.admin.get("/pools/default/nodeServices").json["nodesExt"][0]["services"]
    assert not [name for name in services if name.endswith("SSL")]


def test_ports_with_tls_that_the_node_chose_stay_over_a_restart(make_node):
    chosen = [each for name in TLS_FLAGS for each in (name, "0")]
    node = make_node(*chosen).start().provision()
    ports = [node.ready[name] for name in ("kv_tls", "admin_tls", "views_tls")]
    authority = tls.authority(node)
    node.stop()
    node.start()
    assert [node.ready[name] for name in ("kv_tls", "admin_tls", "views_tls")] == ports != [0, 0, 0]
    assert tls.authority(node) == authority
    assert tls.admin(node, tls.context(authority)).get("/pools/default").status == 200


def test_certificates_of_nodes_and_authorities_are_listed(node, trusted):
    admin = tls.admin(node, trusted)
    (own,) = admin.get(CERTIFICATES).json
    assert own["type"] == "generated" and own["node"] == f"127.0.0.1:{node.admin_port}"
    assert admin.get(f"/pools/default/certificate/node/{own['node']}").json == own
    for place in (f"127.0.0.1:{node.ready['admin_tls']}", f"localhost:{node.admin_port}", "127.0.0.1", "localhost"):
        assert admin.get(f"/pools/default/certificate/node/{place}").json == own
    assert admin.get("/pools/default/certificate/node/10.1.2.3").status == 404
    (authority,) = admin.get("/pools/default/trustedCAs").json
    assert authority["type"] == "generated" and authority["pem"] == tls.authority(node)
    reply = admin.delete(f"/pools/default/trustedCAs/{authority['id']}")
    assert reply.status == 400 and "regenerateCertificate" in reply.json
    assert admin.delete("/pools/default/trustedCAs/999").status == 404


def test_regenerated_authority_is_used_at_once_and_the_former_one_stays_until_the_next_order(own):
    before = tls.authority(own)
    admin = tls.admin(own, tls.context(before))
    with tls.connect(own, tls.context(before), "travel") as connection:
        reply = admin.post("/controller/regenerateCertificate")
        assert reply.status == 200 and reply.text != before
        after = reply.text
        assert tls.authority(own) == after
        # Clients with either connect, and open connections stay.
        for known in (before, after):
            tls.connect(own, tls.context(known)).close()
        assert connection.call(Op.NOOP).status == 0
    listed = own.admin.get("/pools/default/trustedCAs").json
    assert [each["pem"] for each in listed] == [after, before]
    assert listed[1]["warnings"][0]["name"] == "replaced"
    alerts = [each["msg"] for each in own.admin.get("/pools/default").json["alerts"]]
    assert any("regenerateCertificate" in each for each in alerts), alerts
    # The second order ends the transition, and keeps what clients have by now.
    assert own.admin.post("/controller/regenerateCertificate").text == after
    assert len(own.admin.get("/pools/default/trustedCAs").json) == 1
    with pytest.raises(ssl.SSLCertVerificationError):
        tls.connect(own, tls.context(before))
    tls.connect(own, tls.context(after)).close()


@pytest.mark.parametrize("years", [-10, 10])
def test_certificate_by_a_clock_that_is_years_wrong_is_refused_until_the_clock_is_right(make_node, years, tmp_path):
    node = make_node(prefix=wrong_clock(tmp_path, years * 365 * 86_400)).start().provision()
    node.create_bucket("travel")
    authority = tls.authority(node)
    with pytest.raises(ssl.SSLCertVerificationError, match="not yet valid" if years > 0 else "expired"):
        tls.connect(node, tls.context(authority))
    told = bench(node, authority, "run", "--seconds", "1", code=1)
    assert "compare the clocks of both machines" in told, told
    assert node.is_running and node.admin.get("/pools/default").status == 200
    node.stop()
    node.prefix = ()
    node.start()
    # The same authority: clients need no other one.
    tls.connect(node, tls.context(authority), "travel").close()


# The load generator, and in it the product's client library

WORKLOAD = str(ROOT / "benchmarks/workloads/set5-1k.json")


def bench(node, authority, command, *arguments, port="kv_tls", code=0):
    """What a run of the load generator with the authority tells."""
    path = node.directory / "authority.pem"
    path.write_text(authority)
    place = str(node.ready[port])
    where = ["--port", place] if command in ("run", "consume") else ["--bootstrap", f"127.0.0.1:{place}"]
    workload = [WORKLOAD] if command in ("run", "steady") else []
    keys = ["--keys", "300"] if command in ("run", "steady") else []
    done = subprocess.run(
        [str(SERVER.with_name("divan-bench")), command, *workload, *where, *keys, "--bucket", "travel",
         "--user", USER, "--cacert", str(path), "--quiet", *arguments],
        env={"DIVAN_PASSWORD": PASSWORD}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == code, done
    return done.stdout + done.stderr


@pytest.mark.parametrize("way", [("run",), ("run", "--client"), ("steady", "--rate", "500"), ("check", "--keys", "20")])
def test_load_generator_loads_over_tls(own, way):
    told = bench(own, tls.authority(own), *way, "--seconds", "1")
    assert "ops/s" in told or "writes acknowledged" in told or "succeeded" in told, told
    assert "failed" not in told or "0 failed" in told, told
    items = own.admin.get("/pools/default/buckets/travel").json["basicStats"]["itemCount"]
    assert items == (20 if way[0] == "check" else 300)


def test_changes_are_consumed_over_tls(own):
    authority = tls.authority(own)
    bench(own, authority, "run", "--seconds", "0")
    assert bench(own, authority, "consume").startswith("300 changes of 1024 vBuckets")


def test_load_generator_names_the_cause_of_a_failed_tls_handshake(own, issuer):
    authority = tls.authority(own)
    assert "trust the CA of the cluster" in bench(own, issuer.pem, "steady", code=1)
    for way in ("run", "consume"):
        told = bench(own, issuer.pem, way, code=1)
        assert "trust the CA of the cluster" in told, told
        told = bench(own, authority, way, port="kv", code=1)
        assert "port" in told and "with TLS" in told, told
    told = bench(own, "no certificate", "run", code=1)
    assert "authority.pem: there is no certificate" in told, told


# An operator's certificate


def test_chain_with_an_intermediate_is_used_at_once_and_over_a_restart(own, tmp_path):
    root = tls.Issuer(tmp_path, "root")
    middle = tls.Issuer(tmp_path, "middle", root)
    before = tls.context(tls.authority(own))
    with tls.connect(own, before, "travel") as connection:
        reply = tls.supply(own, middle)
        assert reply.status == 200, reply
        cluster = sdk(own, root.pem)
        assert reads_and_writes(cluster)
        cluster.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            tls.connect(own, before)
        assert connection.call(Op.NOOP).status == 0
    (shown,) = own.admin.get(CERTIFICATES).json
    assert shown["type"] == "uploaded" and shown["subject"] == "CN=node"
    loaded = [each for each in own.admin.get("/pools/default/trustedCAs").json if each["type"] == "uploaded"]
    assert loaded[0]["subject"] == "CN=root" and loaded[0]["loadFile"].endswith("inbox/CA/root.pem")
    reply = own.admin.delete(f"/pools/default/trustedCAs/{loaded[0]['id']}")
    assert reply.status == 400 and "needs this CA" in reply.json
    own.stop()
    own.start()
    assert tls.admin(own, tls.context(root.pem)).get("/pools/default").status == 200
    # The cluster's own certificate again.
    reply = own.admin.post("/controller/regenerateCertificate?dropUploadedCertificates=true")
    assert tls.admin(own, tls.context(reply.text)).get("/pools/default").status == 200
    reply = own.admin.delete(f"/pools/default/trustedCAs/{loaded[0]['id']}")
    assert reply.status == 200, reply


def test_key_with_a_passphrase_needs_it(own, issuer):
    certificate, key = issuer.issue("node", ["IP:127.0.0.1"])
    sealed = tls.openssl("pkcs8", "-topk8", "-in", key, "-v2", "aes-256-cbc", "-passout", "pass:open sesame")
    key.write_bytes(sealed)
    tls.fill_inbox(own, issuer.chain(certificate), key, {"root.pem": issuer.pem})
    assert own.admin.post(tls.LOAD).status == 200
    assert "has a passphrase" in own.admin.post(tls.RELOAD).json

    def reload(value):
        body = json.dumps({"privateKeyPassphrase": value})
        return own.admin.request("POST", tls.RELOAD, body, {"Content-Type": "application/json"})

    assert "passphrase of the private key is wrong" in reload({"type": "plain", "password": "no"}).json
    assert reload({"type": "script", "path": "/bin/true"}).status == 400
    assert reload({"type": "plain", "password": "open sesame"}).status == 200
    assert tls.admin(own, tls.context(issuer.pem)).get("/pools/default").status == 200


def test_certificate_that_clients_would_refuse_is_refused_with_the_cause_and_the_old_one_stays(
    own, issuer, tmp_path
):
    before = tls.context(tls.authority(own))
    reply = own.admin.post(tls.RELOAD)
    assert reply.status == 400 and "chain.pem is missing" in reply.json
    reply = own.admin.post(tls.LOAD)
    assert reply.status == 400 and "has no files" in reply.json
    reply = tls.supply(own, issuer, trusts=False)
    assert reply.status == 400 and "no trusted CA" in reply.json
    reply = tls.supply(own, issuer, names=["DNS:elsewhere.example"])
    assert reply.status == 400 and "node's name 127.0.0.1" in reply.json
    reply = tls.supply(own, issuer, days=-1)
    assert reply.status == 400 and "expired at" in reply.json
    certificate, _ = issuer.issue("node", ["IP:127.0.0.1"])
    _, other = issuer.issue("other")
    tls.fill_inbox(own, issuer.chain(certificate), other)
    reply = own.admin.post(tls.RELOAD)
    assert reply.status == 400 and "not that of the first certificate" in reply.json
    tls.fill_inbox(own, "no certificate", other)
    reply = own.admin.post(tls.RELOAD)
    assert reply.status == 400 and "not a list of certificates in PEM" in reply.json
    tls.fill_inbox(own, authorities={"bad.pem": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"})
    reply = own.admin.post(tls.LOAD)
    assert reply.status == 400 and "bad.pem" in reply.json
    assert tls.admin(own, before).get("/pools/default").status == 200


# Certificates of clients

PATHS = {
    "subject.cn": ("alice", []),
    "san.uri": ("any", ["URI:urn:user:alice"]),
    "san.dnsname": ("any", ["DNS:alice.users.example"]),
    "san.email": ("any", ["email:alice@example.com"]),
}


def set_certificate_rules(node, state, *rules):
    prefixes = [dict(zip(("path", "prefix", "delimiter"), rule)) for rule in rules]
    body = json.dumps({"state": state, "prefixes": prefixes})
    reply = node.admin.request("POST", AUTH, body, {"Content-Type": "application/json"})
    assert reply.status in (200, 202), reply
    assert node.admin.get(AUTH).json == {"state": state, "prefixes": prefixes}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A node with the user alice, whose clients may prove certificates of an authority."""
    with Node() as node:
        node.start().provision().create_bucket("travel")
        form = {"password": "alice's", "roles": "data_reader[travel]"}
        assert node.admin.put("/settings/rbac/users/local/alice", form).status == 200
        issuer = tls.Issuer(tmp_path_factory.mktemp("clients"), "clients")
        tls.fill_inbox(node, authorities={"clients.pem": issuer.pem})
        assert node.admin.post(tls.LOAD).status == 200
        node.issuer = issuer
        yield node


@pytest.mark.parametrize("path", PATHS)
def test_certificate_names_the_user_on_all_three_ports(guarded, path):
    prefix = {"san.uri": "urn:user:", "san.dnsname": "", "san.email": "", "subject.cn": ""}[path]
    delimiter = {"san.dnsname": ".", "san.email": "@"}.get(path, "")
    set_certificate_rules(guarded, "enable", ("san.dnsname", "x-", ""), (path, prefix, delimiter))
    name, names = PATHS[path]
    certificate = guarded.issuer.issue(name, names, usage="clientAuth")
    proving = tls.context(tls.authority(guarded), *certificate)
    for port in ("admin_tls", "views_tls"):
        reply = tls.admin(guarded, proving, None, port).get(
            "/whoami" if port == "admin_tls" else "/travel/_design/none"
        )
        assert reply.status in (200, 403, 404), reply
    assert tls.admin(guarded, proving, None).get("/whoami").json["id"] == "alice"
    with tls.connect(guarded, proving, "travel", login=None) as connection:
        assert connection.call(Op.GET, b"none").status == 1
        assert connection.call(Op.SET, b"none", bytes(8), b"{}").status == 0x24
    path = guarded.directory / "authority.pem"
    path.write_text(tls.authority(guarded))
    login = CertificateAuthenticator(
        cert_path=str(certificate[0]), key_path=str(certificate[1]), trust_store_path=str(path)
    )
    cluster = sdk(guarded, path.read_text(), login)
    assert not cluster.bucket("travel").default_collection().exists("none").exists
    cluster.close()


def test_password_works_beside_certificates_that_may_be_proved(guarded):
    set_certificate_rules(guarded, "enable", ("subject.cn", "", ""))
    tls.connect(guarded, tls.context(tls.authority(guarded)), "travel").close()
    stranger = guarded.issuer.issue("mallory", usage="clientAuth")
    proving = tls.context(tls.authority(guarded), *stranger)
    assert tls.admin(guarded, proving, None).get("/pools/default").status == 401
    tls.connect(guarded, proving, "travel").close()


def test_mandatory_certificate_is_needed_by_every_client(guarded):
    set_certificate_rules(guarded, "mandatory", ("subject.cn", "", ""))
    try:
        authority = tls.authority(guarded)
        with pytest.raises((ssl.SSLError, Closed, ConnectionError)):
            tls.connect(guarded, tls.context(authority))
        other = tls.Issuer(guarded.issuer.directory, "foreign").issue("alice", usage="clientAuth")
        with pytest.raises((ssl.SSLError, Closed, ConnectionError)):
            tls.connect(guarded, tls.context(authority, *other), login=None)
        stranger = guarded.issuer.issue("mallory", usage="clientAuth")
        with pytest.raises((ssl.SSLError, Closed, ConnectionError)):
            tls.connect(guarded, tls.context(authority, *stranger)).call(Op.NOOP)
        alice = guarded.issuer.issue("alice", usage="clientAuth")
        tls.connect(guarded, tls.context(authority, *alice), "travel", login=None).close()
        # Without an authority no certificate is right, and no client is let in without one.
        (loaded,) = [
            each for each in guarded.admin.get("/pools/default/trustedCAs").json if each["type"] == "uploaded"
        ]
        assert guarded.admin.delete(f"/pools/default/trustedCAs/{loaded['id']}").status == 200
        for own in ((), alice):
            with pytest.raises((ssl.SSLError, Closed, ConnectionError)):
                tls.connect(guarded, tls.context(authority, *own), login=None).call(Op.NOOP)
        assert guarded.admin.post(tls.LOAD).status == 200
        tls.connect(guarded, tls.context(authority, *alice), "travel", login=None).close()
    finally:
        set_certificate_rules(guarded, "disable")


def test_no_certificate_of_the_clusters_own_authority_logs_a_user_in(guarded):
    """A removed node knows the key of a replaced one."""
    set_certificate_rules(guarded, "enable", ("subject.cn", "", ""))
    listed = subprocess.run(
        ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{guarded.ready['kv_tls']}"],
        input=b"", capture_output=True, timeout=20,
    ).stdout.decode()  # fmt: skip
    accepted = listed.split("Acceptable client certificate CA names")[1].split("Client Certificate Types")[0]
    assert "CN = clients" in accepted and "Divan" not in accepted, accepted


def test_certificates_of_clients_need_a_loaded_authority(node):
    body = json.dumps({"state": "enable", "prefixes": [{"path": "subject.cn", "prefix": "", "delimiter": ""}]})
    reply = node.admin.request("POST", AUTH, body, {"Content-Type": "application/json"})
    assert reply.status == 400 and "loadTrustedCAs" in reply.json["errors"]["state"]


def test_rules_that_cannot_be_used_are_refused(node):
    for body in (
        {"state": "maybe", "prefixes": []},
        {"state": "enable", "prefixes": []},
        {"state": "enable", "prefixes": [{"path": "subject.dn", "prefix": "", "delimiter": ""}]},
        {"state": "enable", "prefixes": [{"path": "subject.cn", "prefix": "", "delimiter": ""}] * 11},
        [],
    ):
        reply = node.admin.request("POST", AUTH, json.dumps(body), {"Content-Type": "application/json"})
        assert reply.status == 400 and reply.json["errors"], body


# Settings


def test_lowest_version_and_cipher_suites_count_for_new_connections(own):
    trusted = tls.context(tls.authority(own))
    with tls.connect(own, trusted) as connection:
        form = {"tlsMinVersion": "tlsv1.3", "cipherSuites": '["TLS_AES_128_GCM_SHA256"]'}
        assert own.admin.post(SECURITY, form).status == 200
        assert not handshake(own, "-tls1_2")[1]
        text, isDone = handshake(own, "-tls1_3")
        assert isDone and "TLS_AES_128_GCM_SHA256" in text, text
        assert connection.call(Op.NOOP).status == 0
    form = {"tlsMinVersion": "tlsv1.2", "cipherSuites": "[]"}
    assert own.admin.post(SECURITY, form).status == 200
    assert handshake(own, "-tls1_2")[1]
    for form in (
        {"tlsMinVersion": "tlsv1.1"},
        {"cipherSuites": '["ALL:!NULL"]'},
        {"cipherSuites": "TLS_AES_128_GCM_SHA256"},
        {"clusterEncryptionLevel": "none"},
        {"responseHeaders": '{"X-Other": "1"}'},
    ):
        reply = own.admin.post(SECURITY, form)
        assert reply.status == 400 and reply.json["errors"].keys() == form.keys(), reply


def test_console_may_be_served_over_tls_only(own):
    secured = tls.admin(own, tls.context(tls.authority(own)))
    form = {"disableUIOverHttp": "true", "responseHeaders": '{"Strict-Transport-Security": "max-age=60"}'}
    assert own.admin.post(SECURITY, form).status == 200
    reply = own.anonymous.get("/ui/index.html")
    assert reply.status == 403 and str(own.ready["admin_tls"]) in reply.text
    login = {"user": USER, "password": PASSWORD}
    assert own.anonymous.post("/uilogin", login).status == 403
    reply = secured.get("/ui/index.html")
    assert reply.status == 200 and reply.headers["Strict-Transport-Security"] == "max-age=60"
    assert "; Secure" in secured.post("/uilogin", login).headers["Set-Cookie"]
    assert "Strict-Transport-Security" not in own.admin.get("/pools").headers


# Clients that do not speak TLS, or not well


@pytest.mark.parametrize("port", ["kv_tls", "admin_tls", "views_tls"])
@pytest.mark.parametrize(
    "first",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x80" + bytes(23), bytes(range(256)) * 8, b"\x16\x03\x01\xff\xff"],
    ids=["http", "memcached", "garbage", "record"],
)
def test_bytes_that_are_no_tls_end_only_their_connection(node, trusted, port, first):
    with tls.connect(node, trusted) as connection:
        with socket.create_connection((node.host, node.ready[port]), 20) as client:
            client.sendall(first)
            client.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while client.recv(4096):
                    pass
        assert connection.call(Op.NOOP).status == 0
    assert node.is_running


@pytest.mark.parametrize("port", ["kv", "admin", "views"])
def test_tls_on_a_plain_port_is_refused(node, port):
    with socket.create_connection((node.host, node.ready[port]), 20) as client:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(client)
    assert node.is_running


def test_truncated_handshakes_end_with_their_connections(node, trusted):
    hello = ssl.MemoryBIO()
    machine = trusted.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        machine.do_handshake()
    whole = hello.read()
    for count in range(1, len(whole), 17):
        with socket.create_connection((node.host, node.ready["kv_tls"]), 20) as client:
            client.sendall(whole[:count])
    with tls.connect(node, trusted) as connection:
        assert connection.call(Op.NOOP).status == 0


# A campaign opens more.
HALF_OPEN = int(os.environ.get("DIVAN_STRANGERS", "1500"))


def client_hello():
    """The first record of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="a.example")
    with contextlib.suppress(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("whole", (False, True))
def test_half_open_handshakes_are_bounded_and_keep_no_client_out(own, whole):
    sent = client_hello() if whole else b"\x16\x03\x01"
    trusted = tls.context(tls.authority(own))
    before = own.resident_anonymous_bytes()
    with contextlib.ExitStack() as opened, tls.connect(own, trusted, "travel") as connection:
        for _ in range(HALF_OPEN):
            client = socket.create_connection((own.host, own.ready["kv_tls"]), 20)
            opened.enter_context(client)
            with contextlib.suppress(ConnectionError):
                client.sendall(sent)
        assert connection.call(Op.NOOP).status == 0
        tls.connect(own, trusted).close()
        # At most 1 024 strangers: some 10 KB each, and 55 KB once the first record is whole.
        assert own.resident_anonymous_bytes() - before < 80 << 20


def test_renegotiation_is_refused(node):
    run = subprocess.run(
        ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{node.ready['kv_tls']}"],
        input=b"R\n", capture_output=True, timeout=30,
    )  # fmt: skip
    assert b"no renegotiation" in run.stderr + run.stdout
    assert node.is_running


def test_values_of_all_sizes_pass_over_tls(node, bucket, trusted):
    with tls.connect(node, trusted, bucket) as connection:
        connection.vbuckets = 1024
        for size in (1, 16_383, 16_384, 16_385, 65_536, 1_000_000, 20 << 20):
            value = bytes(range(256)) * (size // 256 + 1)
            key = b"size-%d" % size
            assert connection.call(Op.SET, key, bytes(8), value[:size]).status == 0
            assert connection.call(Op.GET, key).value == value[:size]


def test_pipelined_requests_are_answered_over_tls(node, bucket, trusted):
    from rig.wire import frame

    with tls.connect(node, trusted, bucket) as connection:
        count = 2_000
        request = frame(Op.NOOP)
        connection.send(request * count)
        for _ in range(count):
            assert connection.receive().status == 0


def test_large_frame_of_unauthenticated_client_over_tls_is_refused(node, trusted):
    with Connection(node.ready["kv_tls"], context=trusted) as connection:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            connection.send(bytes([0x80, 0x01]) + bytes(6) + (1 << 20).to_bytes(4, "big") + bytes(12))
            connection.send(bytes(1 << 20))
        assert connection.is_closed_by_server()
