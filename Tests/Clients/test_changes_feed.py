"""The HTTP feed of changes: lines and events, tokens and their refusals, the whole cluster."""

import http.client
import itertools
import threading
import time
import urllib.parse

import pytest

import cluster
from documents import Documents
from rig.changes import Answer, Feed
from rig.node import ROOT, wait_until
from rig.wire import Status, vbucket_of

VBUCKETS = 64
encode = urllib.parse.urlencode


@pytest.fixture(scope="module")
def feed_bucket(node):
    """Makes buckets that one test uses, so that its feed has only its own changes."""
    made = []

    def make(name, **settings):
        node.create_bucket(name, ramQuotaMB=100, numVBuckets=VBUCKETS, **settings)
        node.await_bucket(name)
        made.append(name)
        return name

    yield make
    for name in made:
        node.admin.delete(f"/pools/default/buckets/{name}")


def put(node, bucket, key, value="{}"):
    path = f"/pools/default/buckets/{bucket}/docs/{key}"
    flags = {"value": value} if value.startswith("{") else {"value": value, "flags": 0}
    reply = node.admin.post(path, flags)
    assert reply.status == 200, reply


def delete(node, bucket, key):
    reply = node.admin.delete(f"/pools/default/buckets/{bucket}/docs/{key}")
    assert reply.status == 200, reply


# One node


def test_normal_feed_has_each_document_once_and_ends_with_a_token(node, feed_bucket):
    bucket = feed_bucket("normal")
    for number in range(100):
        put(node, bucket, f"key-{number}")
    put(node, bucket, "key-0", '{"again":true}')
    answer = Answer(node, bucket)
    assert answer.status == 200 and not answer.errors and not answer.rollbacks
    assert sorted(answer.ids) == sorted(f"key-{number}" for number in range(100))
    for each in answer.changes:
        assert each["vb"] == vbucket_of(each["id"].encode(), VBUCKETS)
        assert each["seqno"] > 0 and int(each["cas"]) > 0
        assert "deleted" not in each and "doc" not in each
    assert len(answer.token) <= 6_144


def test_token_resumes_behind_the_last_change(node, feed_bucket):
    bucket = feed_bucket("resume")
    put(node, bucket, "a")
    put(node, bucket, "b")
    first = Answer(node, bucket)
    put(node, bucket, "b", '{"v":2}')
    put(node, bucket, "c")
    put(node, bucket, "c", '{"v":2}')
    delete(node, bucket, "a")
    second = Answer(node, bucket, since=first.token)
    # The newest version of each key, once.
    assert sorted(second.ids) == ["a", "b", "c"]
    assert [each["id"] for each in second.changes if each.get("deleted")] == ["a"]
    third = Answer(node, bucket, since=second.token)
    assert third.status == 200 and third.changes == []


def test_limit_ends_the_feed_and_its_token_continues(node, feed_bucket):
    bucket = feed_bucket("limited")
    for number in range(50):
        put(node, bucket, f"key-{number}")
    seen, token = [], None
    for _ in range(20):
        answer = Answer(node, bucket, limit=7, **({"since": token} if token else {}))
        assert answer.status == 200 and len(answer.changes) <= 7
        seen += answer.ids
        token = answer.token
        if not answer.changes:
            break
    assert sorted(seen) == sorted(f"key-{number}" for number in range(50))


def test_include_docs_has_values_as_json_or_base64(node, feed_bucket):
    bucket = feed_bucket("values")
    put(node, bucket, "json", '{"n":\n12345678901234567890}')
    with node.connect(bucket) as connection:
        assert connection.set(b"text", b"no json\n").status == Status.SUCCESS
        assert connection.set(b"\xff\xfe", b"{}").status == Status.SUCCESS
    found = {each["id"]: each for each in Answer(node, bucket, include_docs="true").changes}
    assert found["json"]["doc"] == {"n": 12345678901234567890}
    assert found["text"]["base64"] == "bm8ganNvbgo="
    assert found[None]["encodedId"] == "%FF%FE" and found[None]["doc"] == {}


def test_longpoll_waits_for_the_first_change(node, feed_bucket):
    bucket = feed_bucket("longpoll")
    put(node, bucket, "before")
    # Behind the beginning it ends at once.
    first = Answer(node, bucket, feed="longpoll")
    assert first.ids == ["before"]
    answers = []

    def wait():
        answers.append(Answer(node, bucket, feed="longpoll", since=first.token, heartbeat=1))

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.5)
    assert not answers
    put(node, bucket, "after")
    waiter.join(30)
    assert [each.ids for each in answers] == [["after"]]
    assert Answer(node, bucket, since=answers[0].token).changes == []


def test_event_source_follows_and_resumes_by_last_event_id(node, feed_bucket):
    bucket = feed_bucket("events")
    put(node, bucket, "a")
    with Feed(node, bucket, feed="eventsource", since="now") as feed:
        assert feed.answer.getheader("Content-Type").startswith("text/event-stream")
        events = iter(feed)
        # The position at the beginning.
        assert "token" in next(events)
        put(node, bucket, "b")
        assert next(events)["id"] == "b"
        token = next(events)["token"]
        assert feed.last_id == token
        put(node, bucket, "c")
        assert next(events)["id"] == "c"
    # The header is newer than the target, which an event source repeats.
    headers = {"Last-Event-ID": token}
    with Feed(node, bucket, feed="eventsource", since="now", headers=headers) as feed:
        ids = (each["id"] for each in feed if each and "id" in each)
        assert next(ids) == "c"


def test_idle_feed_sends_heartbeats(node, feed_bucket):
    bucket = feed_bucket("idle")
    for feed in ("longpoll", "eventsource"):
        with Feed(node, bucket, feed=feed, since="now", heartbeat=1) as waiting:
            assert None in [each for _, each in zip(range(3), waiting)]


def test_token_is_accepted_in_a_body(node, feed_bucket):
    bucket = feed_bucket("posted")
    put(node, bucket, "a")
    token = Answer(node, bucket).token
    put(node, bucket, "b")
    for body in (token, f"since={token}&limit=5", token + "\n"):
        answer = Answer(node, bucket, method="POST", body=body)
        assert answer.ids == ["b"], body


def test_tokens_come_at_most_once_a_second(node, feed_bucket):
    bucket = feed_bucket("seconds")
    tokens, ids, began = 0, 0, time.monotonic()
    with Feed(node, bucket, feed="eventsource") as feed:
        for number in range(200):
            put(node, bucket, f"key-{number}")
        for each in feed:
            tokens += "token" in (each or {})
            ids += "id" in (each or {})
            if ids == 200:
                break
    assert tokens <= time.monotonic() - began + 2


def test_invalid_parameters_are_refused_by_name(node, bucket):
    refused = {
        "feed": "continuous", "limit": "0", "include_docs": "maybe", "heartbeat": "0",
        "since": "no-token",
    }
    for name, value in refused.items():
        answer = Answer(node, bucket, **{name: value})
        assert answer.status == 400 and name in answer.refusal["errors"], name
    assert node.admin.get("/pools/default/buckets/none/changes").status == 404
    assert node.anonymous.get(f"/pools/default/buckets/{bucket}/changes").status == 401


def parameter_table():
    """The parameters that docs/changes.md lists."""
    lines = (ROOT / "docs" / "changes.md").read_text().splitlines()
    start = lines.index("| parameter | meaning |") + 2
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    return [line.split("`")[1] for line in rows]


def misspellings(name):
    return [name + "s", name[:-1], name.upper(), name + " ", f"{name}[]", "_" + name]


def test_unknown_and_repeated_parameters_are_refused_by_name(node, bucket):
    values = {"feed": "normal", "limit": "1", "include_docs": "true", "heartbeat": "1"}
    values["since"] = "now"
    names = parameter_table()
    assert sorted(names) == sorted(values)
    for name in names:
        good = {name: values[name], "feed": "normal"}
        assert Answer(node, bucket, **good).status == 200, name
        assert Answer(node, bucket, method="POST", body=encode(good)).status == 200, name
        for wrong in [*misspellings(name), "filter"]:
            refused = [
                Answer(node, bucket, **{wrong: values[name]}),
                Answer(node, bucket, method="POST", body=encode({wrong: values[name]})),
                Answer(node, bucket, method="POST", body="since=now", **{wrong: values[name]}),
            ]
            for answer in refused:
                assert answer.status == 400 and wrong in answer.refusal["errors"], wrong
                assert name in answer.refusal["errors"][wrong]
        twice = f"{name}={values[name]}&{name}={values[name]}"
        path = f"/pools/default/buckets/{bucket}/changes"
        answers = [
            node.admin.get(f"{path}?{twice}"),
            node.admin.request("POST", path, twice.encode()),
        ]
        for answer in answers:
            assert answer.status == 400 and name in answer.json["errors"], name


def test_changed_tokens_are_refused(node, feed_bucket):
    bucket = feed_bucket("damaged")
    put(node, bucket, "a")
    token = Answer(node, bucket).token
    changed = [token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
               for at in range(len(token))]
    changed += [token[:length] for length in range(1, len(token), 7)]
    changed += [token[:-1], token[:-2], token[1:], token + token, f"{token} {token}"]
    appended = ["=", "==", "A", "-", "_", "+", "/", "&", "&&", "%", "é", "\0", "=now", "&since=now&"]
    changed += [token + end for end in appended] + [start + token for start in ("=", "since", "A")]
    changed += [token[:9] + "\n" + token[9:], " ", "\n", "nows", "0"]
    for each in changed:
        answer = Answer(node, bucket, method="POST", body=each)
        assert answer.status == 400, each
        answer = Answer(node, bucket, since=each)
        assert answer.status == 400 and list(answer.refusal["errors"]) == ["since"], each
    assert Answer(node, bucket, since="").status == 400
    for each in (token + "=", token[:-1], "no-token"):
        headers = {"Last-Event-ID": each}
        assert Answer(node, bucket, headers=headers).status == 400, each
    # The end of a line is none of the token, and an empty body is no body.
    for body in (token + "\n", token + "\r\n", token + " "):
        assert Answer(node, bucket, method="POST", body=body).changes == [], body
    assert Answer(node, bucket, method="POST", body="").ids == ["a"]


def test_token_of_another_or_recreated_bucket_is_gone(node, feed_bucket):
    one, two = feed_bucket("one"), feed_bucket("two")
    token = Answer(node, one).token
    answer = Answer(node, two, since=token)
    assert answer.status == 410 and "another bucket" in answer.refusal["reason"]
    assert node.admin.delete(f"/pools/default/buckets/{one}").status == 200
    feed_bucket("one")
    assert Answer(node, one, since=token).status == 410


def test_feed_ends_when_its_bucket_is_deleted(node, feed_bucket):
    bucket = feed_bucket("deleted")
    with Feed(node, bucket, feed="eventsource") as feed:
        events = iter(feed)
        assert "token" in next(events)
        assert node.admin.delete(f"/pools/default/buckets/{bucket}").status == 200
        rest = [each for each in events if each]
    assert any("deleted" in each.get("reason", "") for each in rest)


def test_feed_of_one_login_is_bounded(node, feed_bucket):
    bucket = feed_bucket("many")
    feeds = []
    try:
        for _ in range(33):
            feeds.append(Feed(node, bucket, feed="longpoll", since="now"))
        statuses = [feed.status for feed in feeds]
        # Feeds of tests before this one may end within two seconds.
        assert statuses[-1] == 429 and 24 <= statuses.count(200) <= 32
    finally:
        for feed in feeds:
            feed.close()
    wait_until(lambda: Answer(node, bucket).status == 200, 30, "a feed is free again")


def test_feed_needs_the_permissions_of_its_roles(node, feed_bucket):
    bucket = feed_bucket("guarded")
    put(node, bucket, "a")
    path = "/settings/rbac/users/local/consumer"
    changes = f"/pools/default/buckets/{bucket}/changes"
    consumer = node.admin.as_user("consumer", "secret-word")
    # As in Couchbase Server, `data_dcp_reader` includes reading documents.
    for roles, alone, with_documents in (
        (f"data_reader[{bucket}]", 403, 403),
        (f"data_dcp_reader[{bucket}]", 200, 200),
        (f"data_dcp_reader[{bucket}],data_reader[{bucket}]", 200, 200),
    ):
        body = urllib.parse.urlencode({"roles": roles, "password": "secret-word"})
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        assert node.admin.request("PUT", path, body, headers).status == 200
        assert consumer.get(changes).status == alone, roles
        assert consumer.get(f"{changes}?include_docs=true").status == with_documents, roles
    assert node.admin.delete(path).status == 200
    assert consumer.get(changes).status == 401


def test_token_survives_a_restart(make_node):
    node = make_node().start()
    node.provision()
    node.create_bucket("kept", ramQuotaMB=100, numVBuckets=VBUCKETS)
    put(node, "kept", "a")
    token = Answer(node, "kept").token
    put(node, "kept", "b")
    node.stop()
    node.start()
    node.await_bucket("kept")

    def answer():
        found = Answer(node, "kept", since=token)
        return found if found.status == 200 else None

    found = wait_until(answer, 30, "the feed is served")
    assert found.ids == ["b"] and found.rollbacks == []


# Three nodes


class Consumer:
    """Follows a bucket at one node by an event source, and by its token at the next one."""

    def __init__(self, nodes, bucket):
        self.nodes, self.bucket = nodes, bucket
        self.documents, self.seqnos, self.rollbacks = {}, {}, []
        self.failure, self.is_over = None, threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def stop(self):
        self.is_over.set()
        self.thread.join(60)
        assert not self.thread.is_alive()
        if self.failure:
            raise self.failure

    def check(self):
        if self.failure:
            raise self.failure

    def _run(self):
        token, turn = None, 0
        try:
            while not self.is_over.is_set():
                living = self.nodes.living
                member, turn = living[turn % len(living)], turn + 1
                token = self._follow(member, token) or token
        except BaseException as failure:
            self.failure = failure

    def _follow(self, member, token):
        query = {"feed": "eventsource", "include_docs": "true", "heartbeat": 1}
        headers = {"Last-Event-ID": token} if token else {}
        began, pending = time.monotonic(), []
        try:
            with Feed(member, self.bucket, seconds=20, headers=headers, **query) as feed:
                if feed.status != 200:
                    time.sleep(0.2)
                    return token
                for each in feed:
                    if each is not None:
                        pending.append(each)
                    if each and "token" in each:
                        # A consumer keeps its token together with the changes before it.
                        for change in pending:
                            self._take(change)
                        token, pending = each["token"], []
                    # The next node continues from the token.
                    is_due = time.monotonic() - began > 5 and not pending
                    if is_due or self.is_over.is_set():
                        return token
        except (OSError, ValueError, http.client.HTTPException):
            time.sleep(0.2)
        return token

    def _take(self, each):
        if "rollback" in each:
            vbucket, seqno = each["rollback"]["vb"], each["rollback"]["seqno"]
            self.rollbacks.append((vbucket, seqno))
            self.seqnos[vbucket] = seqno
            for key in [key for key in self.documents if self.documents[key][0] == vbucket]:
                if self.documents[key][1] > seqno:
                    del self.documents[key]
        elif "id" in each:
            vbucket, seqno = each["vb"], each["seqno"]
            assert seqno > self.seqnos.get(vbucket, 0), (each, self.seqnos.get(vbucket))
            self.seqnos[vbucket] = seqno
            if each.get("deleted"):
                self.documents.pop(each["id"], None)
            else:
                self.documents[each["id"]] = (vbucket, seqno, each["doc"]["n"])

    @property
    def numbers(self):
        self.check()
        return {key: number for key, (_, _, number) in dict(self.documents).items()}


def write(documents, first, count, expected):
    for number in range(first, first + count):
        key = f"change-{number % 500}"
        documents.upsert(key, {"n": number})
        expected[key] = number
        if number % 10 == 9:
            documents.remove(key)
            del expected[key]


def test_any_node_answers_for_the_whole_cluster(start):
    nodes = start(cluster.made, 3, ["travel"])
    for number in range(100):
        put(nodes[0], "travel", f"key-{number}")
    keys = sorted(f"key-{number}" for number in range(100))
    for member in nodes.members:
        assert sorted(Answer(member, "travel").ids) == keys


def test_feed_follows_rebalance_without_gap_or_repeat(start, client):
    nodes = start(cluster.made, 3, ["travel"])
    documents, expected = client(nodes), {}
    consumer = Consumer(nodes, "travel")
    try:
        write(documents, 0, 1_000, expected)
        nodes.start_rebalance(eject=[2])
        write(documents, 1_000, 1_000, expected)
        nodes.await_rebalance(seconds=120)
        write(documents, 2_000, 500, expected)
        wait_until(lambda: consumer.numbers == expected, 60, "the consumer has every document")
        # A rebalance loses no change.
        assert consumer.rollbacks == []
    finally:
        consumer.stop()


def test_failover_that_lost_seen_changes_is_announced(start):
    """The replica was down during writes that the consumer saw."""
    nodes = start(cluster.made, 3, ["travel"])
    nodes.set_auto_failover(timeout=1_000)
    rows = nodes.vbucket_map("travel")
    active, replica = next((row[0], row[1]) for row in rows if 0 not in row)
    keys = [
        key
        for key in (f"alone-{number}" for number in range(5_000))
        if rows[vbucket_of(key.encode(), VBUCKETS)] == [active, replica]
    ][:50]
    put(nodes[0], "travel", keys[0], '{"kept":true}')
    documents = Documents(nodes, "travel")
    documents.written = {keys[0].encode(): b'{"kept":true}'}
    documents.await_copies(0)
    with nodes[replica].connect("travel") as connection:
        wait_until(lambda: connection.stat()["ep_queue_size"] == "0", 10, "all is on disk")
    with Feed(nodes[0], "travel", seconds=120, feed="eventsource", heartbeat=1) as feed:
        events = (each for each in feed if each)
        seen = Seen(events)
        seen.until(lambda: keys[0] in seen.ids and seen.is_settled)
        nodes[replica].kill()
        with nodes[active].connect("travel") as connection:
            for key in keys:
                assert connection.set(key.encode(), b"{}").status == Status.SUCCESS
            wait_until(lambda: connection.stat()["ep_queue_size"] == "0", 10, "they are on disk")
        seen.until(lambda: seen.ids.count(keys[0]) == 2 and set(keys) <= set(seen.ids))
        seen.until(lambda: seen.is_settled)
        token = seen.token
        nodes[active].kill()
        nodes[replica].start()
        address = nodes[replica].address
        wait_until(lambda: nodes.nodes(0)[address]["status"] == "healthy", 20, "it is back")
        assert nodes.fail_over(active).status == 200
        lost = {vbucket_of(key.encode(), VBUCKETS) for key in keys}
        # The feed that was open all the time names the vBuckets and continues.
        seen.until(lambda: {vbucket for vbucket, _ in seen.rollbacks} >= lost and seen.is_settled)
        assert {vbucket for vbucket, _ in seen.rollbacks} == lost
        put(nodes[0], "travel", keys[1], '{"new":true}')
        before = len(seen.ids)
        seen.until(lambda: keys[1] in seen.ids[before:])

    # So does one that resumes by a token from before the failover.
    def resumed():
        answer = Answer(nodes[0], "travel", since=token)
        return answer if answer.status == 200 else None

    answer = wait_until(resumed, 60, "the feed is served after the failover")
    assert {vbucket for vbucket, _ in answer.rollbacks} == lost
    assert keys[1] in answer.ids
    assert Answer(nodes[0], "travel", since=answer.token).rollbacks == []


class Seen:
    """What a feed has delivered so far."""

    def __init__(self, events):
        self.events = events
        self.ids, self.rollbacks, self.token, self.is_settled = [], [], None, False

    def until(self, condition):
        """Reads until the condition holds."""
        while not condition():
            each = next(self.events)
            self.is_settled = "token" in each
            assert "error" not in each, each
            if "token" in each:
                self.token = each["token"]
            elif "rollback" in each:
                self.rollbacks.append((each["rollback"]["vb"], each["rollback"]["seqno"]))
            else:
                self.ids.append(each["id"])
