"""Feeds of changes: each document once, whatever is granted or cut meanwhile."""

import json
import os
import random
import threading
import time

import pytest

from gateway.driver import Connection
from gateway.subscriber import (
    CONTINUOUS,
    KINDS,
    LONG_POLL,
    NORMAL,
    SOCKET,
    Cut,
    Feed,
    Subscriber,
    repeated,
)
from rig.divan_gateway import DivanGateway
from rig.node import wait_until

KILLS = 4 * int(os.environ.get("DIVAN_KILL_ROUNDS", "5"))
SEED = int(os.environ.get("DIVAN_SEED", "20261130"))
SYNC = """function (doc) {
  channel(doc.channels);
  if (doc.grant) access(doc.grant.user, doc.grant.channels);
}"""
# The campaign has a user of all channels, and so a database of its own.
ONCE, CAMPAIGN = "once", "campaign"
DATABASES = {name: {"server": "walrus:", "sync": SYNC} for name in (ONCE, CAMPAIGN)}
# A key that only the releases of a dialect have decides the dialect of a file.
DIALECTS = {"1.4": {"log": []}, "3": {"logging": {"console": {"log_level": "warn"}}}}
DOCUMENTS = 1_000
SECONDS = 60


class Administrator:
    """A client of the administration port, for one database."""

    def __init__(self, gateway, database=ONCE):
        self.connection = Connection(("127.0.0.1", gateway.admin_port))
        self.database = database

    def ask(self, method, path, body):
        """The parsed answer; None if it has no body."""
        data = json.dumps(body).encode()
        lines = [f"{method} /{self.database}/{path} HTTP/1.1", "Host: localhost"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}", "", ""]
        self.connection.send("\r\n".join(lines).encode() + data)
        answer = self.connection.head()
        self.connection.read_body(answer, method)
        assert answer.status in (200, 201), answer
        return json.loads(answer.body) if answer.body else None

    def user(self, name, channels):
        """Makes a user."""
        self.ask("PUT", f"_user/{name}", {"password": "password", "admin_channels": channels})

    def grant(self, name, channels):
        """Gives a user all these channels. A new password would end the user's sessions."""
        self.ask("PUT", f"_user/{name}", {"admin_channels": channels})

    def login(self, name):
        """The header of a new session. It saves the client the costly check of a password."""
        session = self.ask("POST", "_session", {"name": name})["session_id"]
        return "Cookie", f"SyncGatewaySession={session}"

    def write(self, documents):
        """Stores documents; their new revisions in the same order."""
        return [row["rev"] for row in self.ask("POST", "_bulk_docs", {"docs": documents})]


@pytest.fixture(scope="module", params=DIALECTS)
def gateway(tmp_path_factory, request):
    path = tmp_path_factory.mktemp("feeds") / "gateway.json"
    path.write_text(json.dumps({**DIALECTS[request.param], "databases": DATABASES}))
    with DivanGateway(path) as gateway:
        yield gateway


@pytest.fixture
def admin(gateway):
    admin = Administrator(gateway)
    yield admin
    admin.connection.close()


@pytest.fixture
def subscribe(gateway):
    """Makes subscribers that end with the test, not started yet."""
    made = []

    def make(kind, login, database=ONCE, next_cut=lambda: None, **options):
        address = ("127.0.0.1", gateway.public_port)
        made.append(Subscriber(address, database, kind, login, next_cut, **options))
        return made[-1]

    yield make
    for each in made:
        if each.is_alive():
            each.stop()


def ids(rows):
    return [row["id"] for _, row in rows]


# Every document once


@pytest.mark.parametrize("kind", KINDS)
def test_each_document_of_old_new_and_late_channels_comes_once(admin, subscribe, kind):
    name = f"once-{kind}"
    before, during, after = channels = [f"{name}-{each}" for each in ("before", "during", "after")]
    admin.user(name, [before])
    limit = {"limit": 37} if kind in (NORMAL, LONG_POLL) else {}
    subscriber = subscribe(kind, admin.login(name), **limit)
    documents = [
        {"_id": f"{name}-{number:04}", "channels": [channels[number % 3]]}
        for number in range(DOCUMENTS)
    ]
    subscriber.start()
    for at in range(0, DOCUMENTS, 50):
        if at == DOCUMENTS // 2:
            admin.grant(name, [before, during])
        admin.write(documents[at : at + 50])
    admin.grant(name, [before, during, after])
    wait_until(
        lambda: len(subscriber.latest) == DOCUMENTS or subscriber.failure, SECONDS, "all documents"
    )
    # A repeated row may come behind all others.
    admin.write([{"_id": f"{name}-last", "channels": [before]}])
    wait_until(lambda: f"{name}-last" in subscriber.latest or subscriber.failure, SECONDS)
    subscriber.stop()
    assert subscriber.failure is None
    assert sorted(ids(subscriber.rows)) == [*(each["_id"] for each in documents), f"{name}-last"]
    if kind in (CONTINUOUS, SOCKET):
        assert subscriber.connections == 1


# A late grant


def rows_until_cut(feed, count):
    """The rows of documents before the connection is cut, at most `count`."""
    rows = []
    try:
        for row in feed.rows():
            if not row["id"].startswith("_user/"):
                rows.append(row)
            if len(rows) == count:
                break
    except Cut:
        pass
    feed.close()
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_feed_cut_amid_late_rows_resumes_behind_its_last_row(gateway, admin, kind):
    """The position of a late row names the grant and the document: "12:4"."""
    name = f"late-{kind}"
    old, late = f"{name}-old", f"{name}-late"
    admin.user(name, [old])
    login = admin.login(name)
    documents = [
        {"_id": f"{name}-{number:03}", "channels": [old if number % 4 == 0 else late]}
        for number in range(200)
    ]
    expected = sorted(each["_id"] for each in documents)
    admin.write(documents[:100])
    admin.grant(name, [old, late])
    admin.write(documents[100:])
    address = ("127.0.0.1", gateway.public_port)
    dice = random.Random(f"{SEED} {kind}")
    print(f"seed {SEED}")
    resumed_late = 0
    for _ in range(10):
        found, since = [], 0
        while len(found) < len(expected):
            bytes_max = dice.randrange(500, 6_000)
            feed = Feed(address, ONCE, kind, login, bytes_max, since=since)
            rows = rows_until_cut(feed, len(expected) - len(found))
            positions = [str(row["seq"]) for row in rows]
            assert len(set(positions)) == len(rows), "two rows have one position"
            if rows:
                since = rows[-1]["seq"]
                resumed_late += ":" in str(since) and len(found) + len(rows) < len(expected)
            found += rows
        assert sorted(row["id"] for row in found) == expected
        late_rows = [row["id"] for row in found if ":" in str(row["seq"])]
        assert late_rows == [
            each["_id"] for each in documents[:100] if each["channels"] == [late]
        ]
    assert resumed_late > 0, "no feed was cut amid late rows: the test has shown nothing"


@pytest.mark.parametrize("limit", [1, 7, 40])
def test_pages_of_late_rows_continue_by_last_seq(gateway, admin, limit):
    name = f"pages-{limit}"
    admin.user(name, [])
    login = admin.login(name)
    documents = [{"_id": f"{name}-{number:03}", "channels": [name]} for number in range(60)]
    admin.write(documents)
    admin.grant(name, [name])
    address = ("127.0.0.1", gateway.public_port)
    found, since = [], 0
    for _ in range(200):
        feed = Feed(address, ONCE, NORMAL, login, since=since, limit=limit)
        rows = list(feed.rows())
        feed.close()
        assert len(rows) <= limit
        since = feed.last_seq
        found += [row["id"] for row in rows if not row["id"].startswith("_user/")]
        if not rows:
            break
    assert found == [each["_id"] for each in documents]


def test_grant_amid_requests_of_feeds_loses_no_late_row(admin, subscribe):
    """A page must not end behind a grant that it did not know when it began."""
    name, count = "amid", 150
    admin.user(name, [])
    login = admin.login(name)
    admin.write([{"_id": f"old-{at}", "channels": [f"{name}-{at}"]} for at in range(count)])
    subscribers = [subscribe(kind, login) for kind in KINDS for _ in range(5)]
    for each in subscribers:
        each.start()
    for at in range(count):
        grant = {"user": name, "channels": [f"{name}-{at}"]}
        admin.write([{"_id": f"grant-{at}", "channels": ["!"], "grant": grant}])
        time.sleep(0.003)
    last = f"grant-{count - 1}"
    wait_until(lambda: all(last in each.latest or each.failure for each in subscribers), SECONDS)
    # A lost row never comes, also not with the next change.
    admin.write([{"_id": "amid-last", "channels": ["!"]}])
    wait_until(lambda: all("amid-last" in each.latest or each.failure for each in subscribers))
    expected = {f"{kind}-{at}" for kind in ("old", "grant") for at in range(count)}
    for each in subscribers:
        each.stop()
        assert each.failure is None
        lost = expected - each.latest.keys()
        assert lost == set(), f"{each.kind}: {len(lost)} of {len(expected)}"


# A campaign of cut connections


class Writer(threading.Thread):
    """Creates, moves, deletes and revives documents, and grants channels to users, until stopped.

    `history` has the revisions of each document: (revision, channels, is deleted). `granted` has
    the channels of each user; a channel that was granted stays.
    """

    CHANNELS = [f"campaign-{number}" for number in range(8)]

    def __init__(self, admin, dice, users):
        super().__init__(daemon=True)
        self.admin, self.dice = admin, dice
        self.history = {}
        self.granted = {name: set(channels) for name, channels in users.items()}
        self.by_administrator = {name: set(channels) for name, channels in users.items()}
        self.failure = None
        self.batches = 0
        self.is_stopping = False

    def run(self):
        try:
            while not self.is_stopping:
                self.step()
                self.batches += 1
                time.sleep(self.dice.uniform(0, 0.01))
        except (OSError, AssertionError, KeyError) as error:
            self.failure = repr(error)

    def step(self):
        if self.dice.random() < 0.05:
            self.grant()
        batch = [self.change() for _ in range(self.dice.randrange(1, 12))]
        # A document twice in a batch would need the first one's revision.
        batch = list({each["_id"]: each for each in batch}.values())
        for document, revision in zip(batch, self.admin.write(batch), strict=True):
            is_deleted = document.get("_deleted", False)
            entry = revision, set(document.get("channels", ())), is_deleted
            self.history.setdefault(document["_id"], []).append(entry)

    def grant(self):
        """Grants a channel, by an administrator or by a document."""
        name = self.dice.choice([each for each in self.granted if "*" not in self.granted[each]])
        channel = self.dice.choice(self.CHANNELS)
        self.granted[name].add(channel)
        if self.dice.random() < 0.5:
            self.by_administrator[name].add(channel)
            self.admin.grant(name, sorted(self.by_administrator[name]))
        else:
            id = f"campaign-grant-{len(self.history)}"
            grant = {"user": name, "channels": [channel]}
            (revision,) = self.admin.write([{"_id": id, "channels": ["!"], "grant": grant}])
            self.history[id] = [(revision, {"!"}, False)]

    def change(self):
        channels = self.dice.sample([*self.CHANNELS, "!"], self.dice.choice((0, 1, 1, 1, 2)))
        changeable = [id for id in self.history if "grant" not in id]
        if not changeable or self.dice.random() < 0.6:
            return {"_id": f"campaign-{self.dice.getrandbits(48):012x}", "channels": channels}
        id = self.dice.choice(changeable)
        revision, _, is_deleted = self.history[id][-1]
        if not is_deleted and self.dice.random() < 0.3:
            return {"_id": id, "_rev": revision, "_deleted": True}
        return {"_id": id, "_rev": revision, "channels": channels}

    def stop(self):
        self.is_stopping = True
        self.join(30)
        assert self.failure is None, self.failure


class Cuts:
    """The bytes after which connections are cut. Only a connection that was cut counts.

    The writer writes some batches between two cuts, so that there is something to lose.
    """

    BATCHES = 5

    def __init__(self, dice, count, writer):
        self.dice, self.count, self.writer = dice, count, writer
        self.subscribers = []
        self.lock = threading.Lock()

    @property
    def done(self):
        return sum(each.cuts for each in self.subscribers)

    def next(self):
        with self.lock:
            wanted = min(self.count, self.writer.batches // self.BATCHES)
            return int(2 ** self.dice.uniform(0, 14)) if self.done < wanted else None


def position(row):
    """The sequence that showed a row. A late row has that of its grant before its own: "12:4"."""
    return int(str(row["seq"]).split(":")[0])


def missing(writer, channels, latest):
    """What a subscriber does not know: documents whose last row is not of their last state.

    `channels` has the sequence at which each channel of the user was granted.
    """
    found = []
    for id, revisions in writer.history.items():
        row = latest.get(id)
        last, here, is_deleted = revisions[-1]
        known = row and row["changes"][0]["rev"]
        if "*" in channels or here & channels.keys():
            is_known = known == last and row.get("deleted", False) == is_deleted
        else:
            # After it left all channels of the user, the subscriber must know that it did.
            is_known = row is None or bool({"removed", "deleted"} & row.keys())
            if row is not None:
                there = next((each for each in revisions if each[0] == known), (known, set()))[1]
                had = [channels[each] for each in there & channels.keys()]
                is_known = is_known and all(since > position(row) for since in had)
        if not is_known:
            found.append((id, revisions, row))
    return found


def forbidden(writer, channels, rows):
    """The rows that the user may not see; `channels` as for `missing`."""
    found = []
    for _, row in rows:
        revisions = writer.history.get(row["id"], [])
        at = [each for each, _, _ in revisions].index(row["changes"][0]["rev"])
        here = revisions[at][1]
        removed = set(row.get("removed", ()))
        if removed or "deleted" in row:
            seen = set().union(*(each for _, each, _ in revisions[:at]), here)
        else:
            seen = here
        granted = [channels[each] for each in seen & channels.keys()]
        is_granted = "*" in channels or any(each <= position(row) for each in granted)
        # The body of a row, if it is shown, is of its revision.
        body = set(row.get("doc", {}).get("channels", ()))
        is_shown = not body or (body == here and ("*" in channels or body & channels.keys()))
        if not is_granted or not is_shown or removed & here:
            found.append((row, revisions))
    return found


def test_cut_connections_lose_no_change_and_repeat_none(gateway, subscribe):
    admin = Administrator(gateway, CAMPAIGN)
    print(f"seed {SEED}, {KILLS} kills")
    dice = random.Random(SEED)
    users = {f"user-{number}": {Writer.CHANNELS[number]} for number in range(4)}
    users["user-all"] = {"*"}
    for name, channels in users.items():
        admin.user(name, sorted(channels))
    logins = {name: admin.login(name) for name in users}
    writer = Writer(admin, dice, users)
    cuts = Cuts(random.Random(SEED + 1), KILLS, writer)
    subscribers = []
    for name in users:
        for kind in KINDS:
            options = {"limit": dice.randrange(1, 60)} if kind == NORMAL else {}
            if dice.random() < 0.5:
                options["include_docs"] = True
            each = subscribe(kind, logins[name], CAMPAIGN, cuts.next, **options)
            subscribers.append((name, each))
    cuts.subscribers = [each for _, each in subscribers]
    for each in cuts.subscribers:
        each.start()
    writer.start()

    def failures():
        return [(name, each.kind, each.failure) for name, each in subscribers if each.failure]

    wait_until(
        lambda: cuts.done >= KILLS or failures() or writer.failure,
        SECONDS + KILLS,
        f"{KILLS} connections are cut",
    )
    writer.stop()
    assert failures() == []
    granted = {name: channels_of_session(gateway, login) for name, login in logins.items()}
    assert {name: set(each) for name, each in granted.items()} == {
        name: each | {"!"} for name, each in writer.granted.items()
    }
    for name, each in subscribers:
        channels = granted[name]

        def is_complete(each=each, channels=channels):
            return not missing(writer, channels, each.latest) or each.failure

        try:
            wait_until(is_complete, SECONDS)
        except TimeoutError:
            lacking = missing(writer, channels, each.latest)
            count = f"{len(lacking)} of {len(writer.history)}"
            pytest.fail(f"{name}, {each.kind} lacks {count}: {lacking[:3]}")
    for name, each in subscribers:
        each.stop()
    assert failures() == []
    for name, each in subscribers:
        assert forbidden(writer, granted[name], each.rows) == [], f"{name}, {each.kind}"
        assert repeated(each.rows) == [], f"{name}, {each.kind}"
        assert any("doc" in row for _, row in each.rows) == ("include_docs" in each.options)


def channels_of_session(gateway, login):
    """The channels of the user of a session: the sequence at which each was granted."""
    connection = Connection(("127.0.0.1", gateway.public_port))
    lines = [f"GET /{CAMPAIGN}/_session HTTP/1.1", "Host: localhost", ": ".join(login), "", ""]
    connection.send("\r\n".join(lines).encode())
    answer = connection.head()
    connection.read_body(answer, "GET")
    connection.close()
    return json.loads(answer.body)["userCtx"]["channels"]
