"""One request of the stream, and the pattern by which reports and allowed differences name it."""

import base64
import dataclasses
import json
import typing
import urllib.parse

PUBLIC, ADMIN = "public", "admin"
JSON = ("Content-Type", "application/json")

# Members of a path below a database, by the word that begins them.
NAMED = {
    "_local": "{id}",
    "_design": "{design}",
    "_view": "{view}",
    "_user": "{name}",
    "_role": "{name}",
    "_session": "{session}",
    "_raw": "{doc}",
    "_dumpchannel": "{channel}",
    "_dump": "{view}",
}


@dataclasses.dataclass
class Request:
    """A request as a client sends it. Names of `normal.Names` in it are replaced when it is sent.

    `feed` is how the answer is read: None (a whole answer), "lines" (until the connection or the
    chunks end) or "socket" (WebSocket: `body` is the first message). `wake` is sent on a second
    connection once the feed has begun. `settles` names the document whose row the feed of changes
    must have before the next request; if it is empty, the database must be online. `learn` gets the
    answer, and updates the model of the database.
    """

    method: str
    target: str
    headers: list = dataclasses.field(default_factory=list)
    body: bytes | None = None
    port: str = PUBLIC
    feed: str | None = None
    wake: typing.Optional["Request"] = None
    settles: str | None = None
    learn: typing.Callable | None = None

    def header(self, name):
        """The value of a header of the request, or ""."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")

    @property
    def text(self):
        """The request in one line, as reports print it."""
        shown = [f"{name}: {value}" for name, value in self.headers if name != "Authorization"]
        login = self.header("Authorization")
        if login.startswith("Basic "):
            shown.insert(0, "login " + base64.b64decode(login[6:]).decode(errors="replace"))
        body = "" if self.body is None else " " + repr(self.body[:600])
        woken = f" (wake: {self.wake.text})" if self.wake else ""
        return f"{self.port} {self.method} {self.target} [{'; '.join(shown)}]{body}{woken}"

    @property
    def route(self):
        """`GET /{db}/{doc}?rev=1-a [Accept: x]`: names of the path replaced, the query kept.

        The `since` of a feed's body follows: `POST /{db}/_changes [since: 9:4]`.
        """
        accept, since = self.header("Accept"), self.body_since
        shown = f" [Accept: {accept}]" if accept else ""
        return self.pattern + self.query_text + shown + (f" [since: {since}]" if since else "")

    @property
    def body_since(self):
        """The text `since` of a body of `_changes`, or ""."""
        if not self.body or "/_changes" not in self.target:
            return ""
        try:
            since = json.loads(self.body).get("since")
        except (ValueError, AttributeError):
            return ""
        return since if isinstance(since, str) else ""

    @property
    def query_text(self):
        query = self.target.partition("?")[2]
        return "?" + urllib.parse.unquote(query) if query else ""

    @property
    def pattern(self):
        """`GET /{db}/{doc}`."""
        segments = self.target.partition("?")[0].split("/")[1:]
        shown, before = [], ""
        for index, segment in enumerate(segments):
            if not segment or (segment.startswith("_") and before not in ("_local", "_design")):
                shown.append(segment)
            elif index == 0:
                shown.append("{db}")
            elif before in NAMED:
                shown.append(NAMED[before])
            else:
                shown.append("{doc}" if index == 1 else "{attachment}")
            before = segment
        return f"{self.method} /" + "/".join(shown)


def basic(name, password):
    """The header of a login."""
    return ("Authorization", "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode())


def quoted(text):
    """A segment of a path or a value of a query, percent-encoded."""
    return urllib.parse.quote(text, safe="")


def query(**parameters):
    """`?a=b&c=d` of the parameters that are not None; Booleans in lower case."""
    pairs = []
    for name, value in parameters.items():
        if value is None:
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        pairs.append(f"{name}={quoted(str(value))}")
    return "?" + "&".join(pairs) if pairs else ""
