"""Local users: the SDK's user manager, unmodified, and the form of the admin port (rest.md, 7)."""

import datetime

import pytest
from couchbase.exceptions import (
    AuthenticationException,
    CouchbaseException,
    InvalidArgumentException,
    UserNotFoundException,
)
from couchbase.management.users import Role, User

from cluster import Cluster, Member
from rig import sdk
from rig.node import PASSWORD, USER, wait_until
from rig.rest import Rest

USERS = "/settings/rbac/users/local"
ROLES = {
    "admin", "ro_admin", "cluster_admin", "bucket_admin", "bucket_full_access", "views_admin",
    "views_reader", "data_reader", "data_writer", "data_dcp_reader",
    "external_stats_reader",
}


@pytest.fixture(scope="module")
def cluster(node, bucket):
    cluster = sdk.connect(node)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def users(cluster):
    return cluster.users()


def put(node, user, **form):
    return node.admin.put(f"{USERS}/{user}", form)


def granted(found):
    """The roles of a user as pairs of name and bucket."""
    return {(role.name, role.bucket) for role in found.user.roles}


# The SDK's user manager


def test_sdk_user_is_read_as_it_was_upserted(users):
    before = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    users.upsert_user(
        User(
            username="ann",
            display_name="Ann B.",
            password="secret-1",
            roles={Role("data_reader", bucket="travel"), Role("ro_admin")},
        )
    )
    found = users.get_user("ann")
    assert found.user.username == "ann"
    assert found.user.display_name == "Ann B."
    assert granted(found) == {("data_reader", "travel"), ("ro_admin", None)}
    assert all(origin.type == "user" for role in found.effective_roles for origin in role.origins)
    assert abs(found.password_changed - before) < datetime.timedelta(minutes=10)


def test_sdk_upsert_without_password_keeps_it_and_replaces_the_rest(node, users):
    users.upsert_user(User(username="bob", password="secret-1", roles=[Role("ro_admin")]))
    users.upsert_user(User(username="bob", display_name="Bob", roles=[Role("data_reader", bucket="*")]))
    found = users.get_user("bob")
    assert found.user.display_name == "Bob"
    assert granted(found) == {("data_reader", "*")}
    assert node.admin.as_user("bob", "secret-1").get("/whoami").json["id"] == "bob"


def test_sdk_role_of_every_collection_is_that_of_the_bucket(users):
    role = Role("data_writer", bucket="travel", scope="*", collection="*")
    users.upsert_user(User(username="cy", password="secret-1", roles=[role]))
    assert granted(users.get_user("cy")) == {("data_writer", "travel")}


def test_sdk_lists_all_users_and_forgets_a_dropped_one(users):
    for name in ("dan", "eve"):
        users.upsert_user(User(username=name, password="secret-1", roles=[Role("ro_admin")]))
    assert {"dan", "eve"} <= {each.user.username for each in users.get_all_users()}
    users.drop_user("dan")
    assert "dan" not in {each.user.username for each in users.get_all_users()}
    with pytest.raises(UserNotFoundException):
        users.get_user("dan")
    # Of the server's answer, `User was not found.`, this SDK makes its general exception.
    with pytest.raises(CouchbaseException):
        users.drop_user("dan")


def test_sdk_lists_the_roles_that_can_be_granted(users):
    roles = users.get_roles()
    assert {each.role.name for each in roles} == ROLES
    scoped = {each.role.name for each in roles if each.role.bucket == "*"}
    assert scoped == ROLES - {"admin", "ro_admin", "cluster_admin", "external_stats_reader"}
    assert all(each.display_name and each.description for each in roles)


@pytest.mark.parametrize(
    "roles",
    [[Role("root")], [Role("data_reader")], [Role("data_reader", bucket="absent")],
     [Role("data_reader", bucket="travel", scope="s", collection="c")]],
    ids=["unknown", "without a bucket", "of an absent bucket", "of a collection"],
)
def test_sdk_gets_an_error_for_an_impossible_role(users, roles):
    with pytest.raises((InvalidArgumentException, CouchbaseException)):
        users.upsert_user(User(username="fay", password="secret-1", roles=roles))
    with pytest.raises(UserNotFoundException):
        users.get_user("fay")


def test_sdk_user_of_a_group_is_refused(users):
    user = User(username="gil", password="secret-1", roles=[Role("ro_admin")], groups={"g"})
    with pytest.raises(CouchbaseException):
        users.upsert_user(user)


def test_sdk_changes_the_password_of_its_login(node, bucket, users):
    roles = [Role("admin")]
    users.upsert_user(User(username="hal", password="secret-1", roles=roles))
    own = sdk.connect(node, "hal", "secret-1")
    try:
        own.users().change_password("secret-2")
    finally:
        own.close()
    assert node.admin.as_user("hal", "secret-1").get("/whoami").status == 401
    assert node.admin.as_user("hal", "secret-2").get("/whoami").json["id"] == "hal"
    with pytest.raises(CouchbaseException):
        sdk.connect(node, "hal", "secret-1").close()


def test_sdk_reads_and_writes_as_a_local_user(node, bucket, users):
    role = Role("bucket_full_access", bucket=bucket)
    users.upsert_user(User(username="ida", password="secret-1", roles=[role]))
    own = sdk.connect(node, "ida", "secret-1")
    try:
        collection = own.bucket(bucket).default_collection()
        collection.upsert("of ida", {"n": 1})
        assert collection.get("of ida").content_as[dict] == {"n": 1}
    finally:
        own.close()


def test_sdk_login_with_a_wrong_password_is_refused(node, bucket, users):
    users.upsert_user(User(username="jim", password="secret-1", roles=[Role("admin")]))
    with pytest.raises((AuthenticationException, CouchbaseException)):
        sdk.connect(node, "jim", "secret-2").close()


# The form


@pytest.mark.parametrize(
    "name,form,field",
    [
        ("u", {"roles": "ro_admin"}, "password"),
        ("u", {"password": "short"}, "password"),
        ("u", {"password": "with\ttab"}, "password"),
        ("u", {"password": "secret-1", "roles": "root"}, "roles"),
        ("u", {"password": "secret-1", "roles": "admin[travel]"}, "roles"),
        ("u", {"password": "secret-1", "roles": "data_reader"}, "roles"),
        ("u", {"password": "secret-1", "roles": "data_reader[absent]"}, "roles"),
        ("u", {"password": "secret-1", "roles": "data_reader[travel:s:c]"}, "roles"),
        ("u", {"password": "secret-1", "groups": "g"}, "groups"),
        ("u", {"password": "secret-1", "locked": "true"}, "locked"),
        ("u", {"password": "secret-1", "rolls": "admin"}, "rolls"),
        ("u", {"password": "secret-1", "name": "x" * 257}, "name"),
        ("x" * 129, {"password": "secret-1"}, "_"),
        ("a%3Ab", {"password": "secret-1"}, "_"),
        ("a%2Fb", {"password": "secret-1"}, "_"),
        ("%7Ba%7D", {"password": "secret-1"}, "_"),
        (USER, {"password": "secret-1"}, "_"),
    ],
    ids=str,
)
def test_impossible_user_is_refused_by_field(node, bucket, name, form, field):
    reply = put(node, name, **form)
    assert reply.status == 400
    assert list(reply.json["errors"]) == [field]
    assert reply.json["errors"][field]


def test_every_wrong_field_is_reported_in_one_answer(node, bucket):
    reply = put(node, "u", password="x", roles="root", groups="g", name="x" * 257)
    assert set(reply.json["errors"]) == {"password", "roles", "groups", "name"}


def test_unknown_roles_are_named_in_the_words_that_clients_match(node, bucket):
    reply = put(node, "u", password="secret-1", roles="admin,root,data_reader[gone]")
    assert reply.json["errors"]["roles"] == (
        "Cannot assign roles to user because the following roles are unknown, malformed or role "
        "parameters are undefined: [root,data_reader[gone]]"
    )


def test_absent_users_and_groups_have_the_texts_that_clients_match(node):
    for reply, text in [
        (node.admin.get(f"{USERS}/absent"), "Unknown user."),
        (node.admin.delete(f"{USERS}/absent"), "User was not found."),
        (node.admin.delete("/settings/rbac/groups/absent"), "Group was not found."),
    ]:
        assert (reply.status, reply.json) == (404, text)


def test_external_users_and_groups_are_refused_by_name(node):
    for path in ("/settings/rbac/users/external/eve", "/settings/rbac/groups/g"):
        reply = node.admin.put(path, {"roles": "admin"})
        assert reply.status == 400 and "not supported yet" in reply.json["errors"]["_"]
    assert node.admin.get("/settings/rbac/users/external").json == []


def test_user_is_shown_with_its_roles_and_without_its_password(node, bucket):
    roles = "data_reader[travel],bucket_admin[*],admin"
    assert put(node, "shown", password="secret-1", name="S", roles=roles).status == 200
    reply = node.admin.get(f"{USERS}/shown")
    shown = reply.json
    assert shown["roles"] == [
        {"role": "admin", "origins": [{"type": "user"}]},
        {"role": "bucket_admin", "bucket_name": "*", "origins": [{"type": "user"}]},
        {
            "role": "data_reader", "bucket_name": "travel", "scope_name": "*",
            "collection_name": "*", "origins": [{"type": "user"}],
        },
    ]
    assert (shown["id"], shown["domain"], shown["name"]) == ("shown", "local", "S")
    assert (shown["groups"], shown["external_groups"]) == ([], [])
    datetime.datetime.strptime(shown["password_change_date"], "%Y-%m-%dT%H:%M:%S.%fZ")
    assert "secret" not in reply.text and "scram" not in reply.text.lower()


def test_names_with_blanks_and_letters_of_other_scripts_are_kept(node):
    name = "Zoë Ünlü"
    assert put(node, "Zo%C3%AB%20%C3%9Cnl%C3%BC", password="secret-1", roles="ro_admin").status == 200
    assert name in [each["id"] for each in node.admin.get(USERS).json]


def test_list_is_walked_in_pages_by_its_links(node):
    for number in range(7):
        assert put(node, f"page-{number}", password="secret-1").status == 200
    expected = [each["id"] for each in node.admin.get(USERS).json]
    path, walked = f"{USERS}?pageSize=3", []
    while path is not None:
        page = node.admin.get(path).json
        assert page["total"] == len(expected) and page["skipped"] == len(walked)
        walked += [each["id"] for each in page["users"]]
        path = page["links"].get("next")
    assert walked == expected
    assert node.admin.get(f"{USERS}?pageSize=1000").status == 400


def test_sorted_and_selected_list_is_walked_in_pages_by_its_links(node):
    for number in range(5):
        form = {"password": "secret-1", "name": f"Walker {9 - number}", "roles": "ro_admin"}
        assert put(node, f"walk-{number}", **form).status == 200
    assert put(node, "walk-9", password="secret-1", name="Walker 0").status == 200
    query = "pageSize=2&substr=WALKER&sortBy=name&order=desc&permission=cluster.settings!read"
    path, walked = f"{USERS}?{query}", []
    while path is not None:
        page = node.admin.get(path).json
        assert (page["total"], page["skipped"]) == (5, len(walked))
        walked += [each["id"] for each in page["users"]]
        path = page["links"].get("next")
    assert walked == [f"walk-{number}" for number in range(5)]


def test_page_of_a_user_deleted_meanwhile_continues_by_id_and_is_refused_by_name(node):
    for number in range(5):
        form = {"password": "secret-1", "name": f"Goer {number}", "roles": "ro_admin"}
        assert put(node, f"goer-{number}", **form).status == 200
    links = {}
    for key in ("id", "name"):
        page = node.admin.get(f"{USERS}?pageSize=2&substr=goer&sortBy={key}").json
        links[key] = page["links"]["next"]
        assert links[key].endswith("startFrom=goer-2")
    assert node.admin.delete(f"{USERS}/goer-2").status == 200
    page = node.admin.get(links["id"]).json
    assert [each["id"] for each in page["users"]] == ["goer-3", "goer-4"]
    assert page["skipped"] == 2
    reply = node.admin.get(links["name"])
    assert reply.status == 400, reply
    assert 'There is no user "goer-2"' in reply.json["errors"]["startFrom"]


def test_patch_changes_the_password_and_nothing_else(node):
    assert put(node, "patched", password="secret-1", name="P", roles="ro_admin").status == 200
    before = node.admin.get(f"{USERS}/patched").json
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    reply = node.admin.request("PATCH", f"{USERS}/patched", "password=secret-2", headers)
    assert reply.status == 200, reply
    after = node.admin.get(f"{USERS}/patched").json
    assert {**after, "password_change_date": ""} == {**before, "password_change_date": ""}
    assert node.admin.as_user("patched", "secret-1").get("/whoami").status == 401
    assert node.admin.as_user("patched", "secret-2").get("/whoami").status == 200
    reply = node.admin.request("PATCH", f"{USERS}/patched", "roles=admin", headers)
    assert reply.status == 400 and "roles" in reply.json["errors"]


def test_deleted_bucket_takes_the_roles_for_it_along(node):
    node.create_bucket("short-lived")
    roles = "data_reader[short-lived],ro_admin"
    assert put(node, "heir", password="secret-1", roles=roles).status == 200
    assert node.admin.delete("/pools/default/buckets/short-lived").status == 200
    left = [each["role"] for each in node.admin.get(f"{USERS}/heir").json["roles"]]
    assert left == ["ro_admin"]
    assert put(node, "late", password="secret-1", roles=roles).status == 400


def test_passwords_are_in_no_log(make_node):
    node = make_node().start().provision()
    secret = "a-password-of-a-local-user"
    assert put(node, "ann", password=secret, roles="ro_admin").status == 200
    own = node.admin.as_user("ann", secret)
    assert own.post("/controller/changePassword", {"password": secret + "-2"}).status == 200
    assert put(node, "ann", password=secret + "\t", roles="ro_admin").status == 400
    assert secret not in node.log()
    assert secret not in node.admin.get("/logs").text


def test_users_outlive_a_restart(make_node):
    node = make_node().start().provision()
    assert put(node, "ann", password="secret-1", name="Ann", roles="ro_admin").status == 200
    before = node.admin.get(f"{USERS}/ann").json
    assert node.stop() == 0
    node.start()
    assert node.admin.get(f"{USERS}/ann").json == before
    assert node.admin.as_user("ann", "secret-1").get("/whoami").json["id"] == "ann"


# A user's own password


def test_user_changes_its_own_password_and_nothing_else(node):
    assert put(node, "own", password="secret-1", roles="").status == 200
    own = node.admin.as_user("own", "secret-1")
    change = "/controller/changePassword"
    assert own.post(change, {"password": "x"}).status == 400
    assert "password" in own.post(change, {}).json["errors"]
    assert own.post(change, {"password": "secret-2", "id": USER}).status == 400
    assert own.post(change, {"password": "secret-2"}).status == 200
    assert own.get("/whoami").status == 401
    new = node.admin.as_user("own", "secret-2")
    assert new.get("/whoami").json["id"] == "own"
    assert new.put(f"{USERS}/own", {"roles": "admin"}).status == 403
    assert node.admin.get("/whoami").status == 200


def test_request_without_login_changes_no_password(node):
    reply = Rest(node.admin_port, None).post("/controller/changePassword", {"password": "secret-9"})
    assert reply.status == 401
    assert node.admin.as_user(USER, PASSWORD).get("/whoami").status == 200


# Clusters


def test_every_node_has_the_users_and_sees_a_deletion():
    with Cluster([Member(), Member()]) as cluster:
        cluster.add(1)
        cluster.rebalance()
        one, other = cluster[0], cluster[1]
        assert put(one, "ann", password="secret-1", roles="ro_admin").status == 200
        own = other.admin.as_user("ann", "secret-1")
        wait_until(lambda: own.get("/whoami").status == 200, 30, "the other node has the user")
        assert own.get("/whoami").json["id"] == "ann"
        assert own.post("/controller/changePassword", {"password": "secret-2"}).status == 200
        login = one.admin.as_user("ann", "secret-2")
        wait_until(lambda: login.get("/whoami").status == 200, 30, "the first node has the password")
        assert other.admin.delete(f"{USERS}/ann").status == 200
        wait_until(lambda: login.get("/whoami").status == 401, 30, "the user is gone")
