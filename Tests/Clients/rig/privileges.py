"""The table of privileges (`privileges.txt`), and users with one role each."""

import pathlib

FILE = pathlib.Path(__file__).resolve().parents[1] / "privileges.txt"
PASSWORD = "of-a-local-user"
GLOBAL_ROLES = ("admin", "cluster_admin", "ro_admin", "external_stats_reader")


class Route:
    """A route of one port, and the permission that it needs."""

    def __init__(self, port, method, path, need):
        self.port = port
        self.method = method
        self.path = path
        self.need = need

    @property
    def is_of_a_bucket(self):
        return "[.]" in self.need

    def target(self, bucket):
        """A path of this route: of the bucket, if it is a bucket's."""
        path = self.path.replace("<bucket>", bucket).replace("<design>", "_design%2Fabsent")
        path = path.replace("<key>", "absent").replace("/**", "/index.html")
        if self.is_of_a_bucket:
            path = path.replace("/*", f"/{bucket}", 1) if "<bucket>" not in self.path else path
        return path.replace("/*", "/absent")

    def __repr__(self):
        return f"{self.method} {self.path}"


class Table:
    def __init__(self):
        parts, part = {}, None
        for line in FILE.read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            if line.startswith("[") and line.endswith("]"):
                part = parts.setdefault(line[1:-1], [])
            else:
                part.append(line)
        self.logins = " ".join(parts["logins"]).split()
        self.routes = [
            Route(port, *line.split()) for port in ("admin port", "view port") for line in parts[port]
        ]
        self.own, self.other = {}, {}
        for line in parts["permissions"]:
            own, _, other = line.partition("|")
            permission, *logins = own.split()
            self.own[permission] = set(logins)
            self.other[permission] = set(other.split())

        self.fields = {
            field: None if need == "-" else need
            for field, need in (line.split() for line in parts["fields of a bucket"])
        }

    def allows(self, need, login, is_own):
        """Whether a login has a permission, for its own bucket or for another one."""
        if need == "open":
            return True
        if need == "login":
            return True
        return login in (self.own if is_own or "[.]" not in need else self.other)[need]


def grant(role, bucket="demo"):
    return role if role in GLOBAL_ROLES else f"{role}[{bucket}]"


def put_user(node, name, roles, password=PASSWORD):
    """Creates or changes a local user."""
    form = {"roles": roles}
    if password is not None:
        form["password"] = password
    return node.admin.put(f"/settings/rbac/users/local/{name}", form)
