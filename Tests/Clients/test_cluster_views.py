"""Views of a cluster: every node answers for all, also while vBuckets move, and says what is missing.

An answer without `errors` equals the evaluation of the documents. One with `errors` is complete for
the vBuckets that no error names.
"""

import json
import re
import threading
import time

import pytest

from cluster import Member, made
from documents import Documents
from rig.load import ingest
from rig.node import wait_until
from rig.views import Views
from rig.wire import Op, Status, frame, vbucket_of
from view_oracle import Chance, Refused, View, sort_key

VBUCKETS = 64


def emitted(document, id):
    return ((key, document["n"]) for key in document["keys"])


SOURCE = "function (doc, meta) { doc.keys.forEach(function (key) { emit(key, doc.n); }); }"
SPREAD = """function (keys, values, rereduce) {
    var all = rereduce ? values : values.map(function (v) { return {low: v, high: v, n: 1}; });
    return all.reduce(function (a, b) {
        return {low: Math.min(a.low, b.low), high: Math.max(a.high, b.high), n: a.n + b.n};
    });
}"""


def spread_of(keys, values):
    return {"low": min(values), "high": max(values), "n": len(values)}


VIEWS = {
    name: View(SOURCE, emitted, reduce)
    for name, reduce in {
        "map": None,
        "count": "_count",
        "sum": "_sum",
        "stats": "_stats",
        "spread": (SPREAD, spread_of),
    }.items()
}


class Stored:
    """Documents of a bucket, written and deleted where the map says."""

    def __init__(self, cluster, bucket):
        self.cluster = cluster
        self.bucket = bucket
        self.documents = {}

    def change(self, changes, at=0):
        """Stores documents by ID; deletes those that are None."""
        rows = self.cluster.vbucket_map(self.bucket, at)
        owners = {}
        for id, document in changes.items():
            owner = rows[vbucket_of(id.encode(), len(rows))][0]
            owners.setdefault(owner, []).append((id, document))
        for owner, part in owners.items():
            with self.cluster[owner].connect(self.bucket) as connection:
                ingest(connection, [(i.encode(), json.dumps(d).encode()) for i, d in part if d])
                for id, document in part:
                    if document is None:
                        place = vbucket_of(id.encode(), len(rows))
                        connection.send(frame(Op.DELETE, id, vbucket=place))
                        assert connection.receive().status == Status.SUCCESS, id
        for id, document in changes.items():
            if document is None:
                del self.documents[id]
            else:
                self.documents[id] = document

    def fill(self, chance, count):
        self.change({f"doc-{number:04}": chance.document() for number in range(count)})

    def await_copies(self, at=0):
        """Waits until replicas have everything, so that a killed node takes nothing with it."""
        copies = Documents(self.cluster, self.bucket)
        copies.written = {
            id.encode(): json.dumps(each).encode() for id, each in self.documents.items()
        }
        copies.await_copies(at)


def views_of(cluster, bucket):
    return [Views(member, bucket) for member in cluster.members]


@pytest.fixture(scope="module")
def cluster():
    cluster = made(3, ["travel"])
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def nodes(cluster):
    """The view ports of all nodes; the design document comes by the last one."""
    nodes = views_of(cluster, "travel")
    assert nodes[2].put("all", VIEWS).status == 201
    return nodes


# Answers with errors


def named_vbuckets(reason):
    """The vBuckets that an error names as "vBuckets 0-3, 7"; None if it names none."""
    found = re.search(r"vBuckets? (\d+(?:-\d+)?(?:, \d+(?:-\d+)?)*)", reason)
    if found is None:
        return None
    numbers = set()
    for part in found.group(1).split(", "):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def check_answer(answer, view, documents):
    """An answer of a map view's rows, in ascending order; returns whether it was complete."""
    assert answer.status == 200, answer
    if not answer.errors:
        assert answer.rows == view.query(documents, reduce=False)["rows"]
        return True
    named = [named_vbuckets(error["reason"]) for error in answer.errors]
    # An error that names no vBucket may concern each.
    missing = set(range(VBUCKETS)) if None in named else set().union(*named)

    def is_complete(id):
        return vbucket_of(id.encode(), VBUCKETS) not in missing

    whole = {id: each for id, each in documents.items() if is_complete(id)}
    complete = [row for row in answer.rows if is_complete(row["id"])]
    assert complete == view.query(whole, reduce=False)["rows"], answer.errors
    # What else is there is no row that the documents do not have, and in order.
    wanted = iter(view.query(documents, reduce=False)["rows"])
    assert all(row in wanted for row in answer.rows), answer.errors
    return False


class Queries:
    """Queries of several nodes, one after the other, while the cluster changes.

    Documents do not change meanwhile, so each answer has one right content.
    """

    def __init__(self, nodes, documents, **parameters):
        self.nodes = nodes
        self.documents = documents
        self.parameters = parameters
        self.complete = self.partial = 0
        self.failure = None
        self.is_ended = False
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_ended = True
        self.thread.join(90)

    def run(self):
        try:
            while not self.is_ended:
                for node in self.nodes:
                    self.ask(node)
        except BaseException as failure:  # Reported by the test.
            self.failure = failure

    def ask(self, node):
        answer = node.query("all", "map", **self.parameters)
        if check_answer(answer, VIEWS["map"], self.documents):
            self.complete += 1
        else:
            self.partial += 1
        count = node.query("all", "count", group_level=1, **self.parameters)
        assert count.status == 200, count
        wanted = VIEWS["count"].query(self.documents, group_level=1)["rows"]
        if not count.errors:
            assert count.rows == wanted
        else:
            # Never more than there is: no vBucket is counted twice.
            most = {sort_key(row["key"]): row["value"] for row in wanted}
            for row in count.rows:
                assert row["value"] <= most[sort_key(row["key"])], (row, count.errors)


def check_all(nodes, documents):
    """Every node has the rows of exactly these documents, without errors."""
    for node in nodes:
        for name, parameters in (("map", {}), ("sum", {"group": True}), ("spread", {})):
            answer = node.fresh("all", name, **parameters)
            assert not answer.errors, answer.errors
            assert answer.content == VIEWS[name].query(documents, **parameters)


# A settled cluster


@pytest.mark.parametrize("seed", range(3))
def test_random_queries_from_every_node_equal_the_evaluation(cluster, nodes, seed):
    """Documents are created, changed and deleted between the queries."""
    chance = Chance(seed)
    stored = Stored(cluster, "travel")
    # What the test before left is deleted.
    present = {row["id"] for row in nodes[0].fresh("all", "map").rows}
    stored.documents = dict.fromkeys(present)
    stored.change(dict.fromkeys(present))
    stored.fill(chance, 200)
    for turn in range(4):
        for number in range(60):
            name = chance.random.choice(list(VIEWS))
            view = VIEWS[name]
            rows = view.rows(stored.documents)
            query = chance.query(rows, view.reduce is not None)
            node = chance.random.choice(nodes)
            answer = node.fresh("all", name, **query)
            about = (seed, turn, number, name, query)
            try:
                wanted = view.query(stored.documents, **query)
            except Refused:
                assert answer.refusal[:2] == (400, "query_parse_error"), (about, answer)
                continue
            assert answer.status == 200 and not answer.errors, (about, answer)
            assert answer.content == wanted, about
        ids = sorted(stored.documents)
        changes = {id: chance.document() for id in chance.random.sample(ids, 30)}
        changes |= dict.fromkeys(chance.random.sample(sorted(set(ids) - set(changes)), 20))
        changes |= {f"new-{turn}-{number}": chance.document() for number in range(20)}
        stored.change(changes, at=chance.random.randrange(3))


def test_compaction_asked_of_one_node_runs_on_all_while_queries_are_answered(cluster, nodes):
    stored = Stored(cluster, "travel")
    present = {row["id"] for row in nodes[0].fresh("all", "map").rows}
    stored.documents = dict.fromkeys(present)
    stored.change(dict.fromkeys(present))
    stored.fill(Chance(11), 300)
    check_all(nodes, stored.documents)
    path = "/pools/default/buckets/travel/ddocs/_design%2Fall/controller/compactView"
    with Queries(nodes, stored.documents, stale="ok") as queries:
        assert cluster[1].admin.post(path).status == 200
        wait_until(
            lambda: all("compaction ended" in member.log() for member in cluster.members),
            30,
            "the end of all compactions",
        )
        check_all(nodes, stored.documents)
    if queries.failure:
        raise queries.failure
    assert queries.complete > 0 and queries.partial == 0
    stored.change({"fresh": {"keys": [["fresh"]], "n": 1}})
    check_all(nodes, stored.documents)
    stored.change({"fresh": None})


def test_write_through_one_node_is_fresh_on_every_other_node(cluster, nodes):
    stored = Stored(cluster, "travel")
    for turn in range(20):
        stored.change({"fresh": {"keys": [["fresh", turn]], "n": turn}}, at=turn % 3)
        for node in nodes:
            rows = node.fresh("all", "map", startkey=["fresh"], endkey=["fresh", {}]).rows
            assert rows == [{"id": "fresh", "key": ["fresh", turn], "value": turn}]
    stored.change({"fresh": None})


def test_design_document_is_known_to_every_node_once_it_is_acknowledged(nodes):
    for turn, node in enumerate(nodes):
        assert node.put("known", {"v": f"function (doc) {{ emit({turn}, null); }}"}).status == 201
        for other in nodes:
            answer = other.fresh("known", "v", limit=1)
            assert answer.status == 200 and not answer.errors, answer
            assert all(row["key"] == turn for row in answer.rows)
    assert nodes[0].delete("known").status == 200
    for other in nodes:
        assert other.fresh("known", "v").status == 404
        # A query that accepts an old index does not read the agreed state first.
        wait_until(lambda: other.query("known", "v").status == 404, 10, "the deletion")


def test_change_of_a_view_is_used_by_every_node_once_it_is_acknowledged(nodes):
    """A query with stale=false through another node never has rows of the definition before."""
    for turn in range(12):
        source = f"function (doc) {{ emit({turn}, null); }}"
        assert nodes[turn % 3].put("again", {"v": source}).status == 201
        for other in (nodes[(turn + 1) % 3], nodes[(turn + 2) % 3]):
            answer = other.fresh("again", "v")
            assert answer.status == 200 and not answer.errors, answer
            assert {row["key"] for row in answer.rows} <= {turn}
    assert nodes[0].delete("again").status == 200


def test_changed_view_is_answered_by_one_definition_on_all_nodes(cluster, nodes):
    """Until every node has built the new definition, the old one answers on every node."""
    stored = Stored(cluster, "travel")
    stored.change({f"changed-{n}": {"keys": [], "n": n} for n in range(1_500)})

    def source(turn):
        return f"""function (doc, meta) {{
            for (var i = 0, x = 1; i < 2e4; i++) x = (x * 69069 + 1) % 4294967296;
            emit({turn} + (x == 0 ? 1 : 0), null);
        }}"""

    assert nodes[0].put("changed", {"v": source(0)}).status == 201
    # Also rows of documents that other tests have left.
    count = len(nodes[0].fresh("changed", "v").rows)
    assert count >= 1_500
    # A node has a previous definition if it has seen that one complete on all nodes.
    for node in nodes:
        assert len(node.fresh("changed", "v").rows) == count
    for turn in (1, 2):
        assert nodes[turn].put("changed", {"v": source(turn)}).status == 201
        newest = dict.fromkeys(range(3), turn - 1)
        end = time.monotonic() + 240
        while set(newest.values()) != {turn}:
            assert time.monotonic() < end, newest
            for place, node in enumerate(nodes):
                answer = node.query("changed", "v", stale="ok")
                assert answer.status == 200 and not answer.errors, answer
                (found,) = {row["key"] for row in answer.rows}
                assert len(answer.rows) == count and newest[place] <= found <= turn
                newest[place] = found
        for node in nodes:
            answer = node.fresh("changed", "v")
            assert {row["key"] for row in answer.rows} == {turn} and not answer.errors
    assert nodes[0].delete("changed").status == 200
    stored.change(dict.fromkeys(stored.documents))


def test_include_docs_reads_documents_of_every_node(cluster, nodes):
    stored = Stored(cluster, "travel")
    stored.change({f"inc-{n}": {"keys": [["inc", n]], "n": n} for n in range(100)})
    bounds = {"startkey": ["inc"], "endkey": ["inc", {}]}
    for node in nodes:
        rows = node.fresh("all", "map", include_docs=True, **bounds).rows
        assert {row["id"]: row["doc"]["json"] for row in rows} == stored.documents
    stored.change(dict.fromkeys(stored.documents))


# Sync Gateway's design documents: what its functions emit, written anew.

GATEWAY = "if (meta.id.substring(0, 6) == '_sync:') return;"
SYNC = "var sync = meta.xattrs && meta.xattrs._sync ? meta.xattrs._sync : doc._sync;"
CHANNELS = f"""function (doc, meta) {{
    {GATEWAY} {SYNC}
    if (!sync || sync.sequence === undefined) return;
    value = {{rev: sync.rev}};
    if (sync.flags & 1) value.flags = 1;
    emit(["*", sync.sequence], value);
    for (ch in sync.channels) {{
        removed = sync.channels[ch];
        if (!removed) emit([ch, sync.sequence], value);
        else emit([ch, removed.seq], {{rev: removed.rev, flags: removed.del ? 3 : 2}});
    }}
}}"""


def access_of(member):
    return f"""function (doc, meta) {{
        {GATEWAY} {SYNC}
        if (sync) for (name in sync.{member}) emit(name, sync.{member}[name]);
    }}"""


def numbered_access_of(member):
    return f"""function (doc, meta) {{
        {GATEWAY} {SYNC}
        if (sync) for (name in sync.{member})
            emit(name, {{vb: parseInt(meta.vb, 10), seq: parseInt(meta.seq, 10)}});
    }}"""


SYNC_GATEWAY = {
    "principals": """function (doc, meta) {
        var parts = ["_sync:user:", "_sync:role:"];
        for (i in parts) {
            if (meta.id.substring(0, 11) == parts[i]) emit(meta.id.substring(11), i == 0);
        }
    }""",
    "channels": CHANNELS,
    "access": access_of("access"),
    "role_access": access_of("role_access"),
    "access_vbseq": numbered_access_of("access"),
    "role_access_vbseq": numbered_access_of("role_access"),
}
HOUSEKEEPING = {
    "all_bits": "function (doc, meta) { emit(meta.id, null); }",
    "all_docs": {
        "map": f"""function (doc, meta) {{
            {GATEWAY} {SYNC}
            if (sync && !(sync.flags & 1))
                emit(meta.id, {{r: sync.rev, s: sync.sequence, c: sync.channels}});
        }}""",
        "reduce": "_count",
    },
    "import": {
        "map": f"function (doc, meta) {{ {GATEWAY} {SYNC} emit([sync !== undefined, meta.id], null); }}",
        "reduce": "_count",
    },
    "old_revs": {
        "map": """function (doc, meta) {
            if (meta.id.substring(0, 10) == "_sync:rev:") emit("", null);
        }""",
        "reduce": "_count",
    },
    "sessions": """function (doc, meta) {
        if (meta.id.substring(0, 14) == "_sync:session:") emit(doc.username, meta.id.substring(14));
    }""",
}


def synced(rev, sequence, channels, **more):
    return {"_sync": {"rev": rev, "sequence": sequence, "channels": channels, **more}, "a": 1}


GATEWAY_DOCUMENTS = {
    "_sync:user:": {"name": ""},
    "_sync:user:alice": {"name": "alice"},
    "_sync:user:bob": {"name": "bob"},
    "_sync:role:hosts": {"name": "hosts"},
    "_sync:rev:one:34:1-a": {"old": True},
    "_sync:rev:two:34:1-b": {"old": True},
    "_sync:session:s1": {"username": "alice"},
    "_sync:session:s2": {"username": "bob"},
    "one": synced("2-a", 5, {"ABC": None, "news": {"seq": 5, "rev": "2-a"}},
                  access={"alice": {"ABC": 3}}, role_access={"alice": {"role:hosts": 3}}),
    "two": synced("1-b", 6, {"ABC": None}, access={"bob": {"ABC": 6}, "role:hosts": {"news": 6}}),
    "dead": synced("3-c", 7, {"ABC": {"seq": 7, "rev": "3-c", "del": True}}, flags=1),
    "plain": {"no": "sync"},
}


def test_sync_gateways_design_documents_give_the_documented_rows(start):
    cluster = start(made, 3, ["gateway"])
    stored = Stored(cluster, "gateway")
    stored.change(GATEWAY_DOCUMENTS)
    nodes = views_of(cluster, "gateway")
    for name, views in (
        ("sync_gateway", SYNC_GATEWAY),
        ("sync_housekeeping", HOUSEKEEPING),
        ("sync_gateway_2.1", SYNC_GATEWAY),
        ("sync_housekeeping_2.1", HOUSEKEEPING),
    ):
        more = {"index_xattr_on_deleted_docs": True} if name.endswith("2.1") else {}
        reply = nodes[0].put(name, views, **more)
        # 1.x accepts no other success than this one.
        assert reply.status == 201, reply
        assert reply.json == {"ok": True, "id": f"_design/{name}"}
        assert nodes[1].get(name).json["views"].keys() == views.keys()
    for suffix in ("", "_2.1"):
        for node in nodes:
            check_gateway(node, f"sync_gateway{suffix}")
            check_housekeeping(node, f"sync_housekeeping{suffix}")


def pairs(answer):
    assert answer.status == 200 and not answer.errors, answer
    assert all({"id", "key", "value"} <= row.keys() for row in answer.rows), answer
    return [(row["key"], row["value"]) for row in answer.rows]


def check_gateway(node, name):
    assert pairs(node.fresh(name, "principals")) == [
        ("", True), ("alice", True), ("bob", True), ("hosts", False)
    ]
    assert pairs(node.fresh(name, "access", key="alice")) == [("alice", {"ABC": 3})]
    assert pairs(node.fresh(name, "access", key="role:hosts")) == [("role:hosts", {"news": 6})]
    assert pairs(node.fresh(name, "access", key="")) == []
    assert pairs(node.fresh(name, "role_access", key="alice")) == [("alice", {"role:hosts": 3})]
    for view, key, id in (
        ("access_vbseq", "bob", "two"), ("role_access_vbseq", "alice", "one")
    ):
        ((found, value),) = pairs(node.fresh(name, view, key=key))
        assert found == key and value["vb"] == vbucket_of(id.encode(), VBUCKETS)
        assert value["seq"] > 0
    live = {"rev": "2-a"}, {"rev": "1-b"}
    deleted = {"rev": "3-c", "flags": 1}
    star = [(["*", 5], live[0]), (["*", 6], live[1]), (["*", 7], deleted)]
    abc = [(["ABC", 5], live[0]), (["ABC", 6], live[1]), (["ABC", 7], {"rev": "3-c", "flags": 3})]
    for channel, wanted in (
        ("*", star), ("ABC", abc), ("news", [(["news", 5], {"rev": "2-a", "flags": 2})]), ("!", [])
    ):
        bounds = {"startkey": [channel, 1], "endkey": [channel, 100]}
        assert pairs(node.fresh(name, "channels", **bounds)) == wanted
        for more in ({"inclusive_end": True, "limit": 5000}, {"reduce": False}):
            assert pairs(node.fresh(name, "channels", **bounds, **more)) == wanted
        bounds["endkey"] = [channel, {}]
        assert pairs(node.fresh(name, "channels", **bounds, limit=2)) == wanted[:2]
        bounds["endkey"] = [channel, 6]
        below = [row for row in wanted if row[0][1] < 6]
        assert pairs(node.fresh(name, "channels", **bounds, inclusive_end=False)) == below
    for view in ("access", "role_access", "channels"):
        answer = node.fresh(name, view, key="view_access_ready_check", limit=1)
        assert pairs(answer) == []


def check_housekeeping(node, name):
    prefix = {"startkey": "_sync:user:", "endkey": "_sync:user~", "inclusive_end": False}
    users = [id for id in GATEWAY_DOCUMENTS if id.startswith("_sync:user:")]
    assert [key for key, _ in pairs(node.fresh(name, "all_bits", **prefix))] == users
    assert len(node.fresh(name, "all_bits").rows) == len(GATEWAY_DOCUMENTS)
    channels = [GATEWAY_DOCUMENTS[id]["_sync"]["channels"] for id in ("one", "two")]
    all_docs = [
        ("one", {"r": "2-a", "s": 5, "c": channels[0]}),
        ("two", {"r": "1-b", "s": 6, "c": channels[1]}),
    ]
    assert pairs(node.fresh(name, "all_docs", reduce=False)) == all_docs
    some = {"startkey": "p", "endkey": "z"}
    assert pairs(node.fresh(name, "all_docs", reduce=False, **some)) == all_docs[1:]
    assert node.fresh(name, "all_docs", reduce=True).rows[0]["value"] == 2
    synced_ids = node.fresh(name, "import", reduce=False, startkey=[True])
    assert [key for key, _ in pairs(synced_ids)] == [[True, id] for id in ("dead", "one", "two")]
    others = node.fresh(name, "import", reduce=False, endkey=[True])
    assert [key for key, _ in pairs(others)] == [[False, "plain"]]
    assert len(pairs(node.fresh(name, "old_revs", reduce=False))) == 2
    alice = {"startkey": "alice", "endkey": "alice"}
    assert pairs(node.fresh(name, "sessions", **alice)) == [("alice", "s1")]


# A cluster that changes


def test_answers_during_rebalances_are_right_or_name_what_is_missing(start):
    """A node comes and another one leaves, while both freshnesses are asked of the others."""
    cluster = start(made, 2, ["travel"])
    cluster.members.append(Member().start())
    stored = Stored(cluster, "travel")
    stored.fill(Chance(1), 600)
    nodes = views_of(cluster, "travel")
    assert nodes[0].put("all", VIEWS).status == 201
    check_all(nodes[:2], stored.documents)
    for eject, asked in ((), nodes[:2]), ((1,), [nodes[0], nodes[2]]):
        with (
            Queries(asked, stored.documents, stale="ok") as loose,
            Queries(asked, stored.documents, stale="false") as fresh,
        ):
            if not eject:
                cluster.add(2)
            cluster.rebalance(eject=eject)
        for queries in (loose, fresh):
            if queries.failure:
                raise queries.failure
            assert queries.complete + queries.partial > 0
        print("complete, partial:", [(each.complete, each.partial) for each in (loose, fresh)])
        check_all(asked if eject else nodes, stored.documents)


def test_promoted_vbuckets_are_indexed_after_a_failover(start):
    """Also after the failed node is back and has received its vBuckets again."""
    cluster = start(made, 3, ["travel"])
    # Not within this test.
    cluster.set_auto_failover(timeout=1_000)
    stored = Stored(cluster, "travel")
    stored.fill(Chance(2), 400)
    nodes = views_of(cluster, "travel")
    assert nodes[0].put("all", VIEWS).status == 201
    check_all(nodes, stored.documents)
    stored.await_copies()
    cluster[2].kill()
    # Before the failover its vBuckets are named.
    answer = nodes[0].query("all", "map", stale="ok", connection_timeout=2_000)
    assert not check_answer(answer, VIEWS["map"], stored.documents)
    with Queries(nodes[:2], stored.documents, stale="ok", connection_timeout=2_000) as queries:
        assert cluster.fail_over(2).status == 200
        check_all(nodes[:2], stored.documents)
    if queries.failure:
        raise queries.failure
    cluster[2].start()
    cluster.take_back(2, "full")
    cluster.rebalance()
    check_all(nodes, stored.documents)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_restarted_node_has_its_rows_again(start, end):
    cluster = start(made, 3, ["travel"])
    # Not within this test.
    cluster.set_auto_failover(timeout=1_000)
    stored = Stored(cluster, "travel")
    stored.fill(Chance(3), 300)
    nodes = views_of(cluster, "travel")
    assert nodes[0].put("all", VIEWS).status == 201
    check_all(nodes, stored.documents)
    stored.await_copies()
    # A kill loses what is not on disk yet.
    if end == "kill":
        wait_until(lambda: is_persisted(cluster[1], "travel"), 10, "its documents are on disk")
    getattr(cluster[1], end)()
    for node in (nodes[0], nodes[2]):
        answer = node.query("all", "map", stale="ok", connection_timeout=2_000)
        assert not check_answer(answer, VIEWS["map"], stored.documents)
        stopped = node.query("all", "map", on_error="stop", connection_timeout=2_000)
        assert stopped.errors and len(stopped.rows) <= len(answer.rows)
    cluster[1].start()
    cluster.await_healthy()
    for member in cluster.members:
        member.await_bucket("travel")
    check_all(nodes, stored.documents)


def is_persisted(member, bucket):
    """Whether all changes of a node are on its disk."""
    with member.connect(bucket) as connection:
        found = connection.stat("vbucket-seqno")
    highs = {name: value for name, value in found.items() if name.endswith(":high_seqno")}
    persisted = ":last_persisted_seqno"
    return all(
        int(found[name.replace(":high_seqno", persisted)]) >= int(value)
        for name, value in highs.items()
    )
