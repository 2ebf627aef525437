"""Requests with attachments: in JSON, in parts, alone."""

import base64
import hashlib

from . import values
from .documents import DocumentMaker
from .maker import content
from .request import query, quoted

TYPES = (
    "text/plain",
    "image/png",
    "application/octet-stream",
    "text/html; charset=utf-8",
    "application/json",
)
NAMES = ("photo", "a.txt", "notes.html", "ünï.bin", "with space", "image.png")


def digest_of(data):
    return "sha1-" + base64.b64encode(hashlib.sha1(data).digest()).decode()


class AttachmentMaker(DocumentMaker):
    def attachment_request(self):
        return self.weighted(
            (
                (20, self.put_inline),
                (12, self.put_parts),
                (12, self.put_attachment),
                (25, self.get_attachment),
                (12, self.get_with_attachments),
                (3, self.put_bad_stub),
            )
        )()

    def _target(self, caller):
        """A document, its fields, and the start of the body of its next revision."""
        document = self.live_document() if self.chance(0.6) else self.any_document()
        fields = self.fields(caller, document)
        body = dict(fields)
        if document.leaves:
            body["_rev"] = document.leaves[-1] if self.chance(0.9) else self.revision(document)
        return document, fields, body

    def _learn_stubs(self, document, parent, fields, parts, history=()):
        learn = self.learn_write(document, parent, fields, history=history)

        def remember(answer):
            learn(answer)
            found = content(answer)
            if answer["status"] == 201 and isinstance(found, dict):
                generation = self.generation(found["rev"])
                for name, data in parts.items():
                    stub = {"stub": True, "revpos": generation, "digest": digest_of(data)}
                    document.stubs[name] = stub

        return remember

    def _member(self, data):
        """The description of an attachment, without its data."""
        member = {}
        if self.chance(0.85):
            member["content_type"] = self.pick(TYPES)
        if self.chance(0.08):
            member["encoding"] = "gzip"
            if self.chance(0.5):
                member["length"] = 3 * len(data)
        return member

    def put_inline(self):
        caller = self.caller()
        document, fields, body = self._target(caller)
        parts = {name: values.attachment(self.random) for name in self._names()}
        members = {}
        for name, data in parts.items():
            members[name] = self._member(data) | {"data": base64.b64encode(data).decode()}
            if self.chance(0.1):
                members[name]["length"] = self.pick((len(data), 1))
        if document.stubs and self.chance(0.6):
            members = document.stubs | members
        body["_attachments"] = members
        history, suffix = (), ""
        if self.chance(0.15):
            history = self.history(document)
            body["_revisions"] = self.revisions(history)
            body.pop("_rev", None)
            suffix = "?new_edits=false"
        learn = self._learn_stubs(document, body.get("_rev", ""), fields, parts, tuple(history[1:]))
        return self.ask(caller, "PUT", self.path_of(document) + suffix, body, learn=learn)

    def _names(self):
        return self.random.sample(NAMES, self.pick((1, 1, 1, 2, 3)))

    def put_parts(self):
        """`multipart/related`: the document, then the attachments that follow it."""
        caller = self.caller()
        document, fields, body = self._target(caller)
        parts = {name: values.attachment(self.random) for name in self._names()}
        members = {}
        for name, data in parts.items():
            members[name] = self._member(data)
            members[name] |= {"follows": True, "length": len(data), "digest": digest_of(data)}
            if "encoding" in members[name]:
                members[name]["encoded_length"] = len(data)
        mistake = self.random.random()
        if mistake < 0.08:
            members[self.pick(list(parts))]["digest"] = "sha1-AAAA"
        elif mistake < 0.12:
            self.pick(list(members.values()))["length"] = 99999
        body["_attachments"] = members
        written = list(parts.values())
        if mistake > 0.96:
            written.append(b"one too many")
        elif mistake > 0.92:
            written.pop()
        if self.chance(0.3):
            self.random.shuffle(written)
        data, kind = self._multipart(body, written)
        learn = self._learn_stubs(document, body.get("_rev", ""), fields, parts)
        headers = [("Content-Type", kind)]
        return self.ask(caller, "PUT", self.path_of(document), data, headers, learn=learn)

    def _multipart(self, body, written):
        """The bytes of the parts, and the Content-Type."""
        edge = b"edge0123456789"
        text = values.dumps(body).encode()
        parts = [b"Content-Type: application/json\r\n\r\n" + text]
        parts += [b"Content-Disposition: attachment\r\n\r\n" + each for each in written]
        data = (
            b"".join(b"--" + edge + b"\r\n" + each + b"\r\n" for each in parts)
            + b"--"
            + edge
            + b"--"
        )
        if self.chance(0.03):
            data = data[: len(data) // 2]
        return data, 'multipart/related; boundary="%s"' % edge.decode()

    def put_attachment(self):
        caller = self.caller()
        document = self.live_document() if self.chance(0.85) else self.any_document()
        name, data = self.pick(NAMES), values.attachment(self.random)
        parent = self.revision(document) if document.leaves and self.chance(0.95) else ""
        headers = [("Content-Type", self.pick(TYPES))] if self.chance(0.8) else []
        path = f"{self.path_of(document)}/{quoted(name)}"
        if parent and self.chance(0.8):
            path += query(rev=parent)
        elif parent:
            headers.append(("If-Match", parent))
        learn = self._learn_stubs(document, parent, document.fields, {name: data})
        return self.ask(caller, "PUT", path, data, headers, learn=learn)

    def _known_attachment(self):
        """A document and the name of an attachment that it may have."""
        found = [each for each in self.database.documents.values() if each.stubs]
        document = self.pick(found) if found and self.chance(0.9) else self.any_document()
        names = list(document.stubs) or NAMES
        return document, self.pick(names) if self.chance(0.92) else "missing"

    def get_attachment(self):
        document, name = self._known_attachment()
        options, headers = {}, []
        if self.chance(0.3):
            options["rev"] = self.revision(document)
        if self.chance(0.1):
            options["content_encoding"] = self.pick((False, True))
        if self.chance(0.45):
            ranges = (
                "0-0 0- 1-3 -4 -0 2-1 500- 99999- 0-99999 100-199 - x 0-1,2-3 -99999 0-4".split()
            )
            headers.append(("Range", "bytes=" + self.pick(ranges)))
        method = self.pick(("GET", "GET", "GET", "GET", "HEAD"))
        path = f"{self.path_of(document)}/{quoted(name)}{query(**options)}"
        return self.ask(self.caller(), method, path, headers=headers)

    def get_with_attachments(self):
        """A document with the bytes of its attachments, in JSON or in parts."""
        document, _ = self._known_attachment()
        options = {"attachments": True}
        if self.chance(0.4):
            options["atts_since"] = self.revision_list(document)
        if self.chance(0.4):
            options["rev"] = self.revision(document)
        if self.chance(0.3):
            options["revs"] = True
        headers = self.accepts(0.6)
        return self.ask(
            self.caller(), "GET", self.path_of(document) + query(**options), headers=headers
        )

    def put_bad_stub(self):
        """One attachment that a gateway must refuse, or may take over from the parent."""
        caller = self.caller()
        document, fields, body = self._target(caller)
        members = (
            {"stub": True},
            {"stub": True, "revpos": 0, "digest": "sha1-x"},
            {"stub": True, "revpos": 1},
            {"stub": True, "revpos": "1"},
            {"stub": False},
            {"data": 7},
            {"data": "!!!"},
            {"follows": True},
            {},
            7,
        )
        body["_attachments"] = {self.pick(NAMES): self.pick(members)}
        learn = self.learn_write(document, body.get("_rev", ""), fields)
        return self.ask(caller, "PUT", self.path_of(document), body, learn=learn)
