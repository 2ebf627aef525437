"""Certificates of an operator, made by the stock `openssl`, and contexts of clients."""

import pathlib
import ssl
import subprocess

from .node import PASSWORD, USER, wait_until
from .rest import Rest
from .wire import Connection

DAYS = 400
RELOAD = "/node/controller/reloadCertificate"
LOAD = "/node/controller/loadTrustedCAs"


def openssl(*arguments, **options):
    return subprocess.run(
        ["openssl", *arguments], check=True, capture_output=True, timeout=30, **options
    ).stdout


class Issuer:
    """An authority, or with `parent` an intermediate one, in a directory."""

    def __init__(self, directory, name, parent=None, days=DAYS):
        self.directory = pathlib.Path(directory)
        self.name = name
        self.parent = parent
        self.key = self.directory / f"{name}.key"
        self.file = self.directory / f"{name}.pem"
        self._sign(self.key, self.file, name, parent, ["basicConstraints=critical,CA:TRUE"], days)

    @property
    def pem(self):
        return self.file.read_text()

    def _sign(self, key, file, name, issuer, extensions, days):
        request = file.with_suffix(".csr")
        options = file.with_suffix(".ext")
        options.write_text("\n".join(extensions) + "\n")
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
        subject = f"/CN={name}"
        openssl("req", "-new", "-key", key, "-subj", subject, "-out", request)
        if issuer is None:
            signing = ["-signkey", key]
        else:
            signing = ["-CA", issuer.file, "-CAkey", issuer.key, "-CAcreateserial"]
        openssl(
            "x509", "-req", "-in", request, *signing, "-days", str(days), "-extfile", options,
            "-out", file,
        )  # fmt: skip

    def issue(self, name, names=(), days=DAYS, usage="serverAuth"):
        """The paths of a certificate and its key; `names` are such as `DNS:a` and `IP:127.0.0.1`."""
        key, file = self.directory / f"{name}.key", self.directory / f"{name}.pem"
        extensions = ["basicConstraints=CA:FALSE", f"extendedKeyUsage={usage}"]
        if names:
            extensions.append("subjectAltName=" + ",".join(names))
        self._sign(key, file, name, self, extensions, days)
        return file, key

    def chain(self, certificate):
        """A certificate followed by the intermediate ones, as text."""
        text, issuer = certificate.read_text(), self
        while issuer.parent is not None:
            text += issuer.pem
            issuer = issuer.parent
        return text


def context(authority=None, certificate=None, key=None, lowest=None):
    """What a client trusts, as PEM text, and the certificate that it proves."""
    made = ssl.create_default_context(cadata=authority) if authority else ssl.create_default_context()
    if certificate is not None:
        made.load_cert_chain(certificate, key)
    if lowest is not None:
        made.minimum_version = lowest
    return made


def authority(node, seconds=10):
    """The certificate of the cluster's authority, once there is one."""
    path = "/pools/default/certificate"
    wait_until(lambda: node.anonymous.get(path).status == 200, seconds, "an authority")
    return node.anonymous.get(path).text


def admin(node, trusted, login=(USER, PASSWORD), port="admin_tls"):
    return Rest(node.ready[port], login, node.host, context=trusted)


def connect(node, trusted, bucket=None, login=(USER, PASSWORD)):
    """A connection to the data port over TLS, logged in unless `login` is None."""
    connection = Connection(node.ready["kv_tls"], host=node.host, context=trusted)
    connection.hello(())
    if login is not None:
        connection.log_in(*login)
    if bucket is not None:
        reply = connection.select_bucket(bucket)
        assert reply.status == 0, reply
    return connection


def fill_inbox(node, chain=None, key=None, authorities=None):
    """Copies what an operator supplies to the node's directory."""
    inbox = node.data / "inbox"
    (inbox / "CA").mkdir(parents=True, exist_ok=True)
    if chain is not None:
        (inbox / "chain.pem").write_text(chain)
        (inbox / "pkey.key").write_bytes(pathlib.Path(key).read_bytes())
    for name, text in (authorities or {}).items():
        (inbox / "CA" / name).write_text(text)


def supply(node, issuer, names=("IP:127.0.0.1", "DNS:localhost"), trusts=True, **options):
    """Copies a chain to the node and orders it to use it; the reply."""
    certificate, key = issuer.issue("node", names, **options)
    root = issuer
    while root.parent is not None:
        root = root.parent
    fill_inbox(node, issuer.chain(certificate), key, {"root.pem": root.pem} if trusts else {})
    if trusts:
        assert node.admin.post(LOAD).status == 200
    return node.admin.post(RELOAD)
