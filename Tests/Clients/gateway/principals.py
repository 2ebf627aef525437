"""Requests of users, roles and sessions."""

from . import values
from .feeds import FeedMaker
from .maker import ADMINISTRATOR, Caller
from .request import PUBLIC, basic, quoted

USERS = ("kim", "lou", "max@x.org", "n.o", "pat-1", "q+r")
ROLES = ("editors", "staff", "none-yet")


class PrincipalMaker(FeedMaker):
    def principal_request(self):
        return self.weighted(
            (
                (9, self.put_user),
                (5, self.put_user_without_password),
                (10, self.get_user),
                (3, self.delete_user),
                (6, self.put_role),
                (7, self.get_role),
                (2, self.delete_role),
                (5, self.list_principals),
                (3, self.bad_principal),
            )
        )()

    def settings(self):
        """Members of a user or role, without password and roles."""
        body = {}
        if self.database.has_fixed_grants:
            body["admin_channels"] = self.database.channels
        elif self.chance(0.8):
            body["admin_channels"] = self.random.sample(
                self.database.channels, self.random.randrange(3)
            )
            if self.chance(0.12):
                # The real gateway shows a user with `*` all users and roles.
                body["admin_channels"] = self.pick((["!"], [], None, ["extra", "news"]))
        return body

    def put_user(self):
        """A user with a password: each costs the gateway a slow hash."""
        name = self.pick(USERS)
        password = self.pick(("letmein", "pässword", "three", "x" * 60))
        if self.chance(0.06):
            password = self.pick(("", "ab"))
        body = self.settings() | {"password": password}
        if self.database.has_roles and self.chance(0.4):
            body["admin_roles"] = self.random.sample(ROLES, self.random.randrange(1, 3))
        if self.chance(0.2):
            body["email"] = self.pick(("a@b.cd", "x@y.org"))
        if self.chance(0.08):
            body["disabled"] = True
        return self._put_user(name, body, password)

    def put_user_without_password(self):
        """Members that the request does not name are emptied, but for the password."""
        name = self.pick(list(self.database.users) or USERS)
        body = self.settings()
        if self.database.has_roles and self.chance(0.3):
            body["admin_roles"] = self.random.sample(ROLES, 1)
        if self.chance(0.1):
            body["name"] = self.pick((name, "other"))
        if self.chance(0.06):
            name, body = "GUEST", {"disabled": self.chance(0.5), "admin_channels": ["news"]}
        return self._put_user(name, body, self.database.users.get(name))

    def _put_user(self, name, body, password):
        def learn(answer):
            if answer["status"] in (200, 201):
                self.database.is_unsettled = True
                self.database.disabled.discard(name)
                if body.get("disabled"):
                    self.database.disabled.add(name)
                if password is not None and not body.get("disabled"):
                    self.database.users[name] = password

        if self.chance(0.25):
            return self.ask(ADMINISTRATOR, "POST", "_user/", body | {"name": name}, learn=learn)
        return self.ask(ADMINISTRATOR, "PUT", f"_user/{quoted(name)}", body, learn=learn)

    def get_user(self):
        name = self.pick(list(self.database.users) + ["GUEST", "stranger"])
        method = self.weighted(((6, "GET"), (1, "HEAD")))
        return self.ask(ADMINISTRATOR, method, f"_user/{quoted(name)}")

    def delete_user(self):
        name = self.pick(USERS)

        def learn(answer):
            if answer["status"] == 200:
                self.database.users.pop(name, None)
                self.database.sessions = [
                    each for each in self.database.sessions if each[1] != name
                ]

        return self.ask(ADMINISTRATOR, "DELETE", f"_user/{quoted(name)}", learn=learn)

    def put_role(self):
        name, body = self.pick(ROLES), self.settings()

        def learn(answer):
            if answer["status"] in (200, 201):
                self.database.is_unsettled = True
                self.database.roles = sorted({name, *self.database.roles})

        if self.chance(0.25):
            return self.ask(ADMINISTRATOR, "POST", "_role/", body | {"name": name}, learn=learn)
        return self.ask(ADMINISTRATOR, "PUT", f"_role/{name}", body, learn=learn)

    def get_role(self):
        name = self.pick(ROLES + ("stranger",))
        return self.ask(ADMINISTRATOR, self.weighted(((6, "GET"), (1, "HEAD"))), f"_role/{name}")

    def delete_role(self):
        return self.ask(ADMINISTRATOR, "DELETE", f"_role/{self.pick(ROLES)}")

    def list_principals(self):
        return self.ask(
            ADMINISTRATOR, self.weighted(((5, "GET"), (1, "HEAD"))), self.pick(("_user/", "_role/"))
        )

    def bad_principal(self):
        """Names and bodies that are refused.

        Illegal names of channels are left out: the real gateway loses a sequence by them, and all
        of its feeds wait five seconds for it.
        """
        choices = (
            ("PUT", "_user/bad%20name", {"password": "letmein"}),
            ("PUT", "_user/%C3%BCber", {"password": "letmein"}),
            ("PUT", "_role/a%20b", {}),
            ("PUT", "_user/kim", {"name": "lou"}),
            ("POST", "_user/", {"password": "letmein"}),
            ("POST", "_role/", {}),
            ("PUT", "_user/kim", b""),
            ("PUT", "_user/kim", b"{} x"),
            ("PUT", "_user/kim", {"admin_channels": "news"}),
            ("PUT", "_user/sam", {"password": 7}),
            ("PUT", "_user/sam", {}),
            ("PUT", "_user/sam", {"email": "no address", "password": "letmein"}),
            ("GET", "_user/bad%20name", None),
            ("DELETE", "_user/GUEST", None),
            ("DELETE", "_user/stranger", None),
            ("DELETE", "_role/stranger", None),
        )
        method, path, body = self.pick(choices)

        def learn(answer):
            self.database.is_unsettled |= answer["status"] in (200, 201)

        return self.ask(ADMINISTRATOR, method, path, body, learn=learn)

    # Sessions

    def session_request(self):
        return self.weighted(
            (
                (5, self.log_in),
                (4, self.make_session),
                (6, self.show_session),
                (3, self.log_out),
                (3, self.end_session),
                (2, self.bad_session),
            )
        )()

    def _learn_session(self, name):
        def learn(answer):
            text = str(answer["headers"]) + str(answer["body"])
            at = text.find("SESSION")
            if answer["status"] == 200 and at >= 0:
                self.database.sessions.append((text[at : at + 11], name))
                self.database.sessions = self.database.sessions[-6:]

        return learn

    def log_in(self):
        caller, body = Caller(PUBLIC, [], ""), b""
        name = self.pick(list(self.database.users) or ["kim"])
        password = self.database.users.get(name, "letmein")
        if self.chance(0.3):
            caller = Caller(PUBLIC, [basic(name, password)], name)
        else:
            body = {"name": name, "password": password if self.chance(0.92) else "wrong"}
        return self.ask(caller, "POST", "_session", body, learn=self._learn_session(name))

    def make_session(self):
        """A session that the administrator makes for a user."""
        # For a disabled user, the real gateway makes a session that nothing accepts; ours refuses.
        enabled = [each for each in self.database.users if each not in self.database.disabled]
        name = self.pick(enabled + ["stranger"])
        body = {"name": name}
        if self.chance(0.5):
            body["ttl"] = self.pick((3600, 86400, 3600, 0, -5))
        return self.ask(ADMINISTRATOR, "POST", "_session", body, learn=self._learn_session(name))

    def show_session(self):
        form = self.random.random()
        if form < 0.6 or not self.database.sessions:
            return self.ask(self.caller(), self.pick(("GET", "GET", "HEAD")), "_session")
        session = self.pick(self.database.sessions)[0] if self.chance(0.8) else "nosuch"
        return self.ask(ADMINISTRATOR, "GET", f"_session/{session}")

    def log_out(self):
        caller = self.session_holder() if self.chance(0.8) else self.user()
        name = caller.headers[0][1].rpartition("=")[2] if caller.headers else ""

        def learn(answer):
            self.database.sessions = [each for each in self.database.sessions if each[0] != name]

        return self.ask(caller, "DELETE", "_session", learn=learn)

    def end_session(self):
        session, name = ("nosuch", "kim")
        if self.database.sessions and self.chance(0.85):
            session, name = self.pick(self.database.sessions)
        path = f"_session/{session}"
        form = self.random.random()
        if form < 0.4:
            path = f"_user/{quoted(name)}/_session/{session}"
        elif form < 0.6:
            path = f"_user/{quoted(name)}/_session"
        elif form < 0.7:
            path = f"_user/stranger/_session/{session}"

        def learn(answer):
            if answer["status"] == 200:
                self.database.sessions = [
                    each for each in self.database.sessions if each[0] != session
                ]

        return self.ask(ADMINISTRATOR, "DELETE", path, learn=learn)

    def bad_session(self):
        guest = Caller(PUBLIC, [], "")
        caller, method, path, body, headers = self.pick(
            (
                (guest, "POST", "_session", b"no json", []),
                (guest, "POST", "_session", b"", []),
                (guest, "POST", "_session", {"name": "stranger", "password": "x"}, []),
                (guest, "POST", "_session", {"name": 7}, []),
                (guest, "POST", "_session", {}, [("Origin", "http://example.com")]),
                (guest, "DELETE", "_session", None, []),
                (self.user(), "DELETE", "_session", None, [("Origin", "http://example.com")]),
                (ADMINISTRATOR, "POST", "_session", {"name": "GUEST"}, []),
                (ADMINISTRATOR, "POST", "_session", {"name": "bad name"}, []),
                (ADMINISTRATOR, "POST", "_session", {}, []),
                (ADMINISTRATOR, "POST", "_session", b"", []),
                (
                    ADMINISTRATOR,
                    "POST",
                    "_session",
                    {"name": "stranger", "ttl": values.Number("1e3")},
                    [],
                ),
                (ADMINISTRATOR, "DELETE", "_session", None, []),
            )
        )
        return self.ask(caller, method, path, body, headers)
