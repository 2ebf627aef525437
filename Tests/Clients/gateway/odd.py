"""Requests of administrators, of design documents, and requests that a gateway must refuse."""

import json

from .maker import ADMINISTRATOR, Caller
from .model import Document
from .principals import PrincipalMaker
from .request import ADMIN, PUBLIC, Request, query, quoted

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
PATHS = (
    "",
    "doc",
    "_all_docs",
    "_bulk_docs",
    "_bulk_get",
    "_changes",
    "_revs_diff",
    "_session",
    "_local/x",
    "_design/x",
    "_ensure_full_commit",
    "_user/",
    "_user/stranger",
    "_role/stranger",
    "_raw/doc",
    "_config",
    "_purge",
    "_vacuum",
    "_nosuch",
    "_nosuch/x",
    "_oidc",
    "_facebook",
)


class OddMaker(PrincipalMaker):
    # Administration

    def administration_request(self):
        return self.weighted(
            (
                (9, self.raw),
                (1, self.empty_purge),
                (3, self.database_info),
                (2, self.dump_channel),
                (2, self.configuration),
                (1, self.commit),
                (3, self.server_route),
            )
        )()

    def raw(self):
        method = self.weighted(((8, "GET"), (1, "HEAD")))
        document = self.any_document()
        if "/" in document.id:
            # The real gateway finds no such document here.
            document = Document("refused")
        return self.ask(ADMINISTRATOR, method, "_raw/" + self.path_of(document))

    def empty_purge(self):
        """A purge that removes no document."""
        name = self.any_document().id
        body = self.pick(
            ({name: ["1-a"]}, {name: []}, {name: "*"}, {name: ["*", "*"]}, {"no-such": ["*"]})
        )
        if self.chance(0.2):
            body = self.pick((b"", b"[]", b"no json", {}))
        return self.ask(ADMINISTRATOR, "POST", "_purge", body)

    def purges(self):
        """Among the last requests to a database, documents are purged.

        The real gateway keeps purged documents in caches: of rows, so that feeds still show them, and of
        revisions. Its answer does not escape ids.
        """
        documents = [
            each
            for each in self.database.documents.values()
            if each.id.isascii() and not set(each.id) & set('"\\')
        ]
        chosen = self.random.sample(documents, min(4, len(documents)))
        names = [each.id for each in chosen] + ["no-such"]
        steps = [self.ask(ADMINISTRATOR, "POST", "_purge", {names[0]: ["*"]})]
        steps.append(self.ask(ADMINISTRATOR, "POST", "_purge", {each: ["*"] for each in names}))
        for document in chosen:
            steps.append(self.ask(ADMINISTRATOR, "GET", self.path_of(document)))
            steps.append(
                self.ask(
                    ADMINISTRATOR, "PUT", self.path_of(document), {"tag": "new", "owner": "kim"}
                )
            )
        return steps + [self.ask(ADMINISTRATOR, "GET", "_all_docs?startkey=g")]

    def database_info(self):
        return self.ask(self.caller(), self.weighted(((20, "GET"), (1, "HEAD"))), "")

    def dump_channel(self):
        suffix = query(since=self.pick((None, 0, 5, "x")))
        channel = self.pick(self.database.channels + ["none", "*"])
        return self.ask(ADMINISTRATOR, "GET", f"_dumpchannel/{quoted(channel)}{suffix}")

    def configuration(self):
        if self.chance(0.7):
            return self.ask(ADMINISTRATOR, "GET", "_config")
        return Request(
            "PUT", f"/{self.database.name}/", [("Content-Type", "application/json")], b"{}", ADMIN
        )

    def commit(self):
        return self.ask(self.caller(), "POST", "_ensure_full_commit")

    def server_route(self):
        port = self.pick((PUBLIC, ADMIN))
        method, target = self.pick(
            (
                ("GET", "/"),
                ("HEAD", "/"),
                ("GET", "/_all_dbs"),
                ("HEAD", "/_all_dbs"),
                ("GET", "/_logging"),
                ("GET", "/_active_tasks"),
                ("GET", "/nosuch/"),
                ("PUT", "/nosuch/"),
                ("DELETE", "/nosuch/"),
                ("GET", "/nosuch/doc"),
                ("GET", "/_nosuch"),
                ("POST", "/"),
                ("GET", f"/{self.database.name}"),
                ("GET", f"/{self.database.name}/../"),
                ("OPTIONS", "/"),
                ("OPTIONS", "*"),
                ("POST", "/_replicate"),
            )
        )
        body = None
        if target == "/_replicate":
            choices = (
                {"source": "", "target": "x"},
                {"create_target": True},
                {"doc_ids": ["a"]},
                {"proxy": "p"},
            )
            body = json.dumps(self.pick(choices)).encode()
        has_origin = port == PUBLIC and self.chance(0.3)
        headers = [("Origin", "http://example.com")] if has_origin else []
        return Request(method, target, headers, body, port)

    def maintenance(self):
        """The last requests to a database: it goes offline, and comes back without its documents."""
        ask = lambda method, path: self.ask(ADMINISTRATOR, method, path)
        steps = [ask("POST", "_resync"), ask("POST", "_offline"), ask("GET", ""), ask("GET", "doc")]
        steps += [self.get(), self.database_info(), ask("POST", "_offline")]
        if self.chance(0.6):
            steps.append(ask("POST", "_resync"))
        online = ask("POST", "_online")
        online.settles = ""
        return steps + [online]

    # Design documents

    def view_request(self):
        """The design documents of the gateway: views are not served."""
        name = self.pick(("sync_gateway", "sync_housekeeping"))
        return self.ask(self.caller(), "GET", "_design/" + name)

    # Requests that a gateway must refuse

    def odd_request(self):
        return self.weighted(
            (
                (10, self.any_method),
                (4, self.cross_origin),
                (3, self.bad_encoding),
                (3, self.unusual_path),
            )
        )()

    def any_method(self):
        """Any method on any path. Those that change the state of the server are left out."""
        caller = self.weighted(((1, ADMINISTRATOR), (1, self.user())))
        method, path = self.pick(METHODS), self.pick(PATHS)
        is_dangerous = (method, path) in (("DELETE", ""), ("PUT", "_config"), ("POST", "_resync"))
        if is_dangerous or path.startswith("_vacuum") and method == "POST":
            method = "OPTIONS"
        body = b"{}" if method in ("POST", "PUT", "PATCH") else None
        headers = [("Content-Type", "application/json")] if body else []
        learn = None
        if path.startswith("doc"):
            learn = self.learn_write(Document("doc"), "", {})
        return self.ask(caller, method, path, body, headers, learn=learn)

    def cross_origin(self):
        caller = self.user() if self.chance(0.8) else Caller(PUBLIC, [], "")
        origin = self.pick(("http://example.com", "null", "https://other.example:8443", "*"))
        headers = [("Origin", origin)]
        method = self.pick(("OPTIONS", "GET", "GET", "POST"))
        if method == "OPTIONS":
            headers.append(("Access-Control-Request-Method", "PUT"))
        return self.ask(
            caller, method, self.pick(PATHS), b"{}" if method == "POST" else None, headers
        )

    def bad_encoding(self):
        """Bodies whose encoding is unknown or damaged."""
        path = self.pick(("_bulk_docs", "_revs_diff", "_bulk_get"))
        encoding = self.weighted(
            ((6, "deflate"), (3, "br"), (3, "identity"), (2, "GZIP"))
        )
        headers = [("Content-Type", "application/json"), ("Content-Encoding", encoding)]
        return self.ask(self.caller(), "POST", path, b'{"docs":[]}', headers)

    def unusual_path(self):
        path = self.pick(
            (
                "%5flocal/x",
                "_local%2Fx",
                "%00",
                "x" * 251,
                "./doc",
                "../doc",
                ".",
                "..",
                "_",
                "_local/",
                "+",
                "a b".replace(" ", "%20") + "/c%20d",
            )
        )
        return self.ask(self.caller(), self.pick(("GET", "GET", "PUT")), path, headers=[])
