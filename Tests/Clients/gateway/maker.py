"""The base of all makers of requests: callers, bodies, documents and what is learned of answers."""

import gzip
import json

from . import values
from .model import Document
from .request import ADMIN, JSON, PUBLIC, Request, basic, quoted


class Caller:
    """Who asks: a port, its headers, and a name (None: the administration port, "": no login)."""

    def __init__(self, port, headers, name):
        self.port = port
        self.headers = headers
        self.name = name


ADMINISTRATOR = Caller(ADMIN, [], None)
AGENTS = ("CouchDB/1.6.1", "CouchbaseLite/1.1.0 (x)", "CouchbaseLite/1.3.1 (y)", "PouchDB")


def content(answer):
    """The parsed body of an answer, or None."""
    try:
        return json.loads(answer["body"]["text"])
    except (KeyError, ValueError):
        return None


class Maker:
    """Shared by the makers; `database` is the model of the current database."""

    def __init__(self, random):
        self.random = random
        self.database = None
        self.queue = []

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, choices):
        return self.random.choice(choices)

    def weighted(self, table):
        """One of the second members of pairs (weight, choice)."""
        return self.random.choices([each for _, each in table], [weight for weight, _ in table])[0]

    # Callers

    def caller(self):
        return self.weighted(
            (
                (40, lambda: ADMINISTRATOR),
                (46, self.user),
                (7, self.session_holder),
                (5, lambda: Caller(PUBLIC, [], "")),
                (2, self.stranger),
            )
        )()

    def user(self):
        """A user with the right password."""
        if not self.database.users:
            return Caller(PUBLIC, [], "")
        name = self.pick(list(self.database.users))
        return Caller(PUBLIC, [basic(name, self.database.users[name])], name)

    def session_holder(self):
        if not self.database.sessions:
            return self.user()
        session, name = self.pick(self.database.sessions)
        return Caller(PUBLIC, [("Cookie", f"SyncGatewaySession={session}")], name)

    def stranger(self):
        """A login that is refused or ignored. A wrong password costs the gateway a slow hash."""
        known = self.pick(list(self.database.users) or ["kim"])
        header = self.weighted(
            (
                (2, basic(known, "wrong")),
                (4, basic("stranger", "password")),
                (2, basic("", "password")),
                (1, ("Authorization", "Basic !!!")),
                (1, ("Authorization", "Bearer abc")),
                (1, ("Authorization", "Basic " + "bm9jb2xvbg==")),
                (3, ("Cookie", "SyncGatewaySession=0123456789")),
            )
        )
        return Caller(PUBLIC, [header], "")

    # Requests

    def ask(self, caller, method, path, body=None, headers=(), **options):
        """A request to the current database; a `body` that is not bytes is sent as JSON."""
        headers = list(caller.headers) + list(headers)
        if body is not None and not isinstance(body, bytes):
            body = values.dumps(body, self.chance(0.3)).encode("utf-8", errors="surrogatepass")
            body = self.encode(body, headers)
        if self.chance(0.08) and not options.get("feed"):
            headers.append(("Accept-Encoding", self.pick(("gzip", "gzip, deflate", "deflate"))))
        if self.chance(0.04) and caller.port == PUBLIC:
            headers.append(("Origin", "http://example.com"))
        if self.chance(0.04):
            headers.append(("User-Agent", self.pick(AGENTS)))
        target = f"/{self.database.name}/{path}"
        return Request(method, target, headers, body, caller.port, **options)

    def encode(self, body, headers):
        """Headers of a JSON body, which is compressed or in chunks at times."""
        kind = self.weighted(
            (
                (88, JSON),
                (5, ("Content-Type", "application/json; charset=utf-8")),
                (5, None),
                (1, ("Content-Type", "text/plain")),
            )
        )
        if kind:
            headers.append(kind)
        if self.chance(0.03):
            headers.append(("Content-Encoding", "gzip"))
            body = gzip.compress(body, mtime=0)
        elif self.chance(0.03):
            headers.append(("Transfer-Encoding", "chunked"))
        return body

    # Documents

    def new_id(self):
        if self.chance(0.25):
            return self.pick(values.ODD_IDS)
        return f"{self.pick(values.NAMES)}-{self.random.randrange(200)}"

    def any_document(self):
        """A document of the model, or one that does not exist."""
        documents = self.database.documents
        if documents and self.chance(0.94):
            # The newest are asked for more often, so that their trees become deep.
            names = list(documents)
            recent = names[-12:] if self.chance(0.6) else names
            return documents[self.pick(recent)]
        return Document(self.new_id())

    def live_document(self):
        """A document with at least one revision if there is one."""
        found = [each for each in self.database.documents.values() if each.leaves]
        return (
            self.pick(found[-12:] if self.chance(0.6) else found) if found else self.any_document()
        )

    def revision(self, document):
        """A revision id, most often a leaf of the document."""
        choice = self.random.random()
        if document.leaves and choice < 0.72:
            return document.leaves[-1] if self.chance(0.7) else self.pick(document.leaves)
        if document.known and choice < 0.88:
            return self.pick(document.known)
        made = f"{self.random.randrange(1, 5)}-{values.digest(self.random)}"
        return self.pick((made, made, made, "1-", "x", "0-a", "-1-a"))

    def generation(self, revision):
        """The number before the hyphen; 0 if there is none."""
        number = revision.partition("-")[0]
        return int(number) if number.isdigit() else 0

    def path_of(self, document):
        """The document's id as a segment of a path."""
        if document.id.startswith("IDMADE") or not self.chance(0.02):
            return quoted(document.id)
        return "".join(f"%{byte:02x}" for byte in document.id.encode())

    def owner(self, caller):
        users = list(self.database.users)
        if caller.name and self.chance(0.85):
            return caller.name
        return self.pick(users) if users and self.chance(0.9) else "stranger"

    def fields(self, caller, document):
        """The body of a new revision, without members that begin with an underscore."""
        kind = self.database.kind
        fields = values.payload(self.random)
        if kind in ("demo", "owners"):
            fields["tag"] = document.fields.get("tag") or self.pick(("public", "private", "public"))
            fields["owner"] = document.fields.get("owner") or self.owner(caller)
            if self.chance(0.06):
                fields[self.pick(("tag", "owner"))] = self.pick(("", "other", "joe", "public"))
        elif kind == "grants":
            self._grant_fields(fields)
        else:
            self._channel_fields(fields)
        return fields

    def _channel_fields(self, fields):
        most = 2 if self.database.has_fixed_grants else 1
        channels = self.random.sample(self.database.channels, self.random.randrange(most + 1))
        if self.chance(0.93):
            fields["channels"] = channels
        else:
            odd = ("news", ["!"], None, [1], {}, ["news", "news"], "", [""], ["a,b"])
            fields["channels"] = self.pick(odd)

    def _grant_fields(self, fields):
        self._channel_fields(fields)
        users = list(self.database.users) + ["role:editors", "role:staff", "stranger"]
        if self.chance(0.25):
            fields["readers"] = self.pick((self.pick(users), self.random.sample(users, 2)))
            fields["opens"] = self.pick(
                (self.pick(self.database.channels), self.database.channels[:2])
            )
        if self.chance(0.1):
            fields["members"] = self.pick(users)
            fields["titles"] = self.pick(("role:editors", ["role:staff"], "editors"))
        if self.chance(0.12):
            name = self.pick(
                ("refuse", "deny", "raise", "owner", "needs_role", "needs_channel", "isFinal")
            )
            choices = {
                "owner": users[:2],
                "needs_role": ["editors", "staff", ["staff", "none"]],
                "needs_channel": self.database.channels,
            }
            fields[name] = self.pick(choices.get(name, ["because", "no <b>way</b>"]))

    # Learning

    def learn_write(self, document, parent, fields, deleted=False, history=()):
        """Updates the model with an accepted write of `document`."""

        def learn(answer):
            found = content(answer)
            if answer["status"] in (200, 201) and isinstance(found, dict) and found.get("rev"):
                self.database.is_unsettled = True
                kept = self.database.documents.setdefault(document.id, document)
                kept.add(found["rev"], history or (parent,), fields, deleted)

        return learn

    def learn_sequences(self, answer):
        """Keeps sequences of rows as a client would send them back."""
        body = answer["body"]
        found = content(answer)
        rows = found.get("results", []) if isinstance(found, dict) else []
        for line in body.get("lines", []) + body.get("messages", []):
            if line.startswith("{"):
                rows.append(json.loads(line))
        kept = [str(row["seq"]) for row in rows if isinstance(row, dict) and "seq" in row]
        if isinstance(found, dict) and "last_seq" in found:
            kept.append(str(found["last_seq"]))
        self.database.sequences = (self.database.sequences + kept[-3:])[-25:]
