"""Requests of single documents, their histories and conflicts, and of local documents."""

import json

from . import values
from .maker import ADMINISTRATOR, Maker, content
from .model import Document
from .request import query

ACCEPTS = (
    "application/json",
    "multipart/related",
    "multipart/mixed",
    "*/*",
    "text/html",
    "multipart/*",
)


class DocumentMaker(Maker):
    def document_request(self):
        return self.weighted(
            (
                (22, self.create),
                (20, self.update),
                (7, self.delete),
                (7, self.put_history),
                (5, self.post),
                (20, self.get),
                (6, self.get_leaves),
                (4, self.head),
                (3, self.bad_body),
                (1, self.expiring),
            )
        )()

    def create(self):
        caller = self.caller()
        document = Document(self.new_id())
        document = self.database.documents.get(document.id, document)
        fields = self.fields(caller, document)
        learn = self.learn_write(document, "", fields)
        return self.ask(caller, "PUT", self.path_of(document), fields, learn=learn)

    def update(self):
        """A new revision; where its parent is named varies, and the parent may be wrong."""
        caller = self.caller()
        document = self.live_document()
        parent = self.revision(document)
        fields = self.fields(caller, document)
        headers, suffix, body = [], "", dict(fields)
        place = self.random.random()
        if place < 0.45:
            body["_rev"] = parent
        elif place < 0.75:
            suffix = query(rev=parent)
        elif place < 0.9:
            headers = [("If-Match", parent)]
        if document.stubs and self.chance(0.7):
            body["_attachments"] = dict(document.stubs)
        deleted = self.chance(0.05)
        if deleted:
            body["_deleted"] = True
        if self.chance(0.1):
            body["_id"] = self.pick((document.id, "other"))
        stubs = dict(document.stubs) if "_attachments" in body else {}
        learn = self.learn_write(document, parent, fields, deleted)

        def learn_stubs(answer):
            learn(answer)
            if answer["status"] == 201:
                document.stubs = stubs

        path = self.path_of(document) + suffix
        return self.ask(caller, "PUT", path, body, headers, learn=learn_stubs)

    def delete(self):
        caller = self.caller()
        document = self.any_document()
        parent = self.revision(document)
        learn = self.learn_write(document, parent, {}, deleted=True)
        path, headers = self.path_of(document), []
        place = self.random.random()
        if place < 0.75:
            path += query(rev=parent)
        elif place < 0.9:
            headers = [("If-Match", parent)]
        return self.ask(caller, "DELETE", path, headers=headers, learn=learn)

    def history(self, document):
        """Revision ids, newest first, that end in a known revision or in none."""
        start = ""
        if document.known and self.chance(0.75):
            start = self.pick(document.known)
        generation = self.generation(start) + self.random.choice((1, 1, 1, 2, 3))
        found = [f"{generation}-{values.digest(self.random)}"]
        while generation - len(found) > self.generation(start):
            found.append(f"{generation - len(found)}-{values.digest(self.random)}")
        if start and self.chance(0.95):
            found.append(start)
        return found

    def revisions(self, history):
        """`_revisions` of a history."""
        start = self.generation(history[0])
        return {"start": start, "ids": [each.partition("-")[2] for each in history]}

    def historical_body(self, caller, document):
        """A body for `new_edits=false`, its fields and its history."""
        history = self.history(document)
        fields = self.fields(caller, document)
        body = dict(fields)
        form = self.random.random()
        if form < 0.9:
            body["_revisions"] = self.revisions(history)
            if self.chance(0.5):
                body["_rev"] = history[0]
        elif form < 0.95:
            body["_rev"] = history[0]
        else:
            bad = (
                {},
                {"start": 1, "ids": []},
                {"start": 0, "ids": ["a"]},
                {"start": "2", "ids": ["a"]},
                7,
            )
            body["_revisions"] = self.pick(bad)
        if self.chance(0.12):
            body["_deleted"] = True
        return body, fields, history

    def put_history(self):
        caller = self.caller()
        document = self.any_document()
        body, fields, history = self.historical_body(caller, document)
        learn = self.learn_write(
            document, "", fields, deleted="_deleted" in body, history=tuple(history[1:])
        )
        path = self.path_of(document) + "?new_edits=false"
        return self.ask(caller, "PUT", path, body, learn=learn)

    def post(self):
        """A document whose id the gateway makes."""
        caller = self.caller()
        body = self.fields(caller, Document(""))
        fields = dict(body)
        if self.chance(0.15):
            body[self.pick(("_id", "_rev"))] = self.pick((self.new_id(), "1-a"))

        def learn(answer):
            found = content(answer)
            if answer["status"] == 200 and isinstance(found, dict):
                self.database.is_unsettled = True
                self.database.document(found["id"]).add(found["rev"], (), fields)

        return self.ask(caller, "POST", "", body, learn=learn)

    def get(self):
        document = self.any_document()
        options = {}
        if self.chance(0.35):
            options["rev"] = self.revision(document)
        if self.chance(0.3):
            options["revs"] = self.pick((True, True, True, False, "1"))
            if self.chance(0.3):
                options["revs_limit"] = self.pick((0, 1, 2, 3, 100, "x", "-1"))
            if self.chance(0.3):
                options["revs_from"] = self.revision_list(document)
        if self.chance(0.3):
            options["attachments"] = self.pick((True, True, False))
            if self.chance(0.4):
                options["atts_since"] = self.revision_list(document)
        if self.chance(0.03):
            options["show_exp"] = True
        if self.chance(0.02):
            options["unknown"] = True
        if self.chance(0.006):
            options[self.pick(("latest", "local_seq", "conflicts", "revs_info", "meta"))] = True
        headers = self.accepts(0.35)
        return self.ask(
            self.caller(), "GET", self.path_of(document) + query(**options), headers=headers
        )

    def revision_list(self, document):
        """A JSON array of revisions, or at times something else."""
        if self.chance(0.06):
            return self.pick(("x", "{}", "[1]", "3", "null", '"1-a"', "[]"))
        return json.dumps([self.revision(document) for _ in range(self.random.randrange(1, 4))])

    def accepts(self, probability):
        headers = []
        if self.chance(probability):
            headers.append(("Accept", self.pick(ACCEPTS)))
            if self.chance(0.4):
                headers.append(("X-Accept-Part-Encoding", "gzip"))
        return headers

    def get_leaves(self):
        document = self.any_document()
        options = {"open_revs": "all" if self.chance(0.5) else self.revision_list(document)}
        if self.chance(0.4):
            options["revs"] = True
        if self.chance(0.3):
            options["attachments"] = True
            if self.chance(0.5):
                options["atts_since"] = self.revision_list(document)
        headers = self.accepts(0.7)
        return self.ask(
            self.caller(), "GET", self.path_of(document) + query(**options), headers=headers
        )

    def head(self):
        document = self.any_document()
        suffix = query(rev=self.revision(document)) if self.chance(0.3) else ""
        return self.ask(self.caller(), "HEAD", self.path_of(document) + suffix)

    def bad_body(self):
        """A body that is no document, or one that may not be stored."""
        caller = self.caller()
        document = self.any_document()
        texts = (
            b"",
            b"not json",
            b"{",
            b"[]",
            b"null",
            b'"text"',
            b'{"a":1,"a":2,"tag":"public","owner":"jane"}',
            b'{"a":"\xff\xfe","tag":"public","owner":"jane"}',
            b'{"a":"\\ud800","tag":"public","owner":"jane"}',
            b'{"a":1e400}',
            b'{"a":01}',
            b"\xef\xbb\xbf{}",
            b'{"_foo":1,"tag":"public","owner":"jane"}',
            b'{"_rev":7,"tag":"public","owner":"jane"}',
            b'{"_rev":"x-y","tag":"public","owner":"jane"}',
            b'{"_attachments":3,"tag":"public","owner":"jane"}',
            b'{"_exp":"tomorrow","tag":"public","owner":"jane"}',
            b'{"_sync":{},"tag":"public","owner":"jane"}',
        )
        suffix = "?new_edits=false" if self.chance(0.15) else ""
        learn = self.learn_write(document, "", {})
        headers = [("Content-Type", "application/json")]
        body = self.pick(texts)
        if body.startswith((b'{"_foo', b'{"_sync', b'{"_attachments')):
            # The real gateway looks for conflicts first; there is no such document.
            document, suffix = Document("refused"), ""
        return self.ask(caller, "PUT", self.path_of(document) + suffix, body, headers, learn=learn)

    def expiring(self):
        """An expiry far in the future, by each form."""
        document = self.any_document()
        fields = self.fields(ADMINISTRATOR, document)
        body = dict(fields)
        body["_exp"] = self.pick(
            (4102444800, "2100000000", "2099-12-31T23:59:59Z", None, 4102444800.5)
        )
        if document.leaves:
            body["_rev"] = document.leaves[-1]
        learn = self.learn_write(document, body.get("_rev", ""), fields)
        return self.ask(ADMINISTRATOR, "PUT", self.path_of(document), body, learn=learn)

    # Local documents

    def local_request(self):
        names = list(self.database.locals)
        name = (
            self.pick(names) if names and self.chance(0.75) else self.pick(values.NAMES) + "-check"
        )
        revision = self.database.locals.get(name)
        caller = self.caller()
        path = "_local/" + name
        form = self.random.random()
        if form < 0.35:
            return self.ask(caller, self.pick(("GET", "GET", "HEAD")), path)
        if form < 0.5:
            suffix = query(rev=revision if self.chance(0.8) else self.pick((None, "0-9", "x")))
            learn = self.learn_local(name)
            return self.ask(caller, "DELETE", path + suffix, learn=learn)
        body = {"lastSequence": self.pick(self.database.sequences), "x": values.value(self.random)}
        if revision and self.chance(0.85):
            body["_rev"] = revision
        elif self.chance(0.2):
            body["_rev"] = self.pick(("0-7", "1-a", 3))
        if self.chance(0.05):
            body = b"no json"
        return self.ask(caller, "PUT", path, body, learn=self.learn_local(name))

    def learn_local(self, name):
        def learn(answer):
            found = content(answer)
            if answer["status"] == 201:
                self.database.locals[name] = found["rev"]
            elif answer["status"] == 200:
                self.database.locals.pop(name, None)

        return learn
