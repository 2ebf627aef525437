// Users: who may log in besides the administrator, with which roles. List, add, edit, delete, passwords.

import { absent, get, getVersioned, patchForm, putForm, remove, checkPermissions } from "/ui/api.js";
import { conflictArea } from "/ui/conflict.js";
import { h, fill, notice, field, formError, showErrors, onSubmit, openDialog, columns, row, table }
  from "/ui/dom.js";

const changePermission = "cluster.admin.security!write";

const userPath = id => `/settings/rbac/users/local/${encodeURIComponent(id)}`;

// A role as requests and the list show it: `data_reader[demo]`.
const grantText = ({ role, bucket_name: bucket }) => bucket === undefined ? role : `${role}[${bucket}]`;

const rolesText = grants => grants.map(grantText).join(",");

const headings = columns("User", "Name", "Roles", "Password changed", ["Actions", "actions"]);

export function users() {
  const body = h("tbody", { id: "user-table" });
  const empty = h("div", { class: "empty", hidden: true },
    "There are no users yet. Give each application a user with the roles that it needs.");
  const error = h("p", { class: "error", role: "alert" });
  const create = h("button", { id: "user-create-button", class: "primary", type: "button",
    onclick: () => userDialog(null, choices, load) }, "Add User");
  const element = h("div", { id: "users" },
    h("div", { class: "head" }, h("h1", {}, "Users"), create), error,
    h("section", { class: "card" }, table(headings, body), empty));
  // The roles of the server, and the buckets that a role can be limited to.
  const choices = { roles: [], buckets: [] };
  let shown = "";
  let mayChange = false;
  create.hidden = true;

  return { element, refresh };

  async function refresh(pool) {
    choices.buckets = pool.bucketNames.map(each => each.bucketName).sort();
    await load();
  }

  async function load() {
    try {
      mayChange = (await checkPermissions([changePermission]))[changePermission];
      create.hidden = !mayChange;
      if (choices.roles.length === 0) choices.roles = await get("/settings/rbac/roles");
      const list = await get("/settings/rbac/users");
      error.textContent = "";
      show(list);
    } catch (problem) {
      if (!problem.errors) throw problem;
      error.textContent = problem.message;
    }
  }

  // Keeps the rows while nothing changes, so that a button can be clicked.
  function show(list) {
    const text = JSON.stringify([list, mayChange]);
    if (text === shown) return;
    shown = text;
    empty.hidden = list.length > 0;
    fill(body, list.map(userRow));
  }

  function userRow(user) {
    const changed = user.password_change_date ? new Date(user.password_change_date) : null;
    return row(headings, { "data-user": user.id },
      h("td", {}, h("div", { class: "named" }, user.id)),
      h("td", {}, user.name),
      h("td", {}, h("div", { class: "roles" },
        user.roles.map(role => h("span", { class: "tag" }, grantText(role))))),
      h("td", {}, changed ? changed.toLocaleString() : ""),
      h("td", { hidden: !mayChange },
        h("button", { class: "small", type: "button",
          onclick: () => openUser(user.id) }, "Edit"), " ",
        h("button", { class: "small", type: "button",
          onclick: () => passwordDialog(user, load) }, "Password"), " ",
        h("button", { class: "small danger", type: "button",
          onclick: () => deleteUser(user) }, "Delete")));
  }

  async function openUser(id) {
    try {
      const { value, version } = await getVersioned(userPath(id));
      if (value) return userDialog(value, choices, load, version);
      notice(`${id} was deleted`);
    } catch (problem) {
      if (!problem.errors) throw problem;
      notice(problem.message);
    }
  }

  async function deleteUser(user) {
    if (!confirm(`Delete the user ${user.id}? Its sessions and connections lose their rights at once.`)) return;
    try {
      await remove(userPath(user.id));
      notice(`${user.id} was deleted`);
    } catch (problem) {
      if (!problem.errors) throw problem;
      notice(problem.message);
    }
    await load();
  }
}

// MARK: Add and edit

function userDialog(user, choices, changed, openedVersion = absent) {
  let version = openedVersion;
  const id = h("input", { autocomplete: "off", spellcheck: "false", maxlength: 128 });
  const name = h("input", { autocomplete: "off", value: user?.name || "" });
  const password = h("input", { type: "password", autocomplete: "new-password" });
  const again = h("input", { type: "password", autocomplete: "new-password" });
  const roles = roleList(user?.roles ?? [], choices);
  const submit = h("button", { id: "user-submit", class: "primary", type: "submit" },
    user ? "Save" : "Add");
  const conflict = conflictArea("user-conflict");
  const form = h("form", { id: "user-form", novalidate: true },
    h("h2", {}, user ? `Edit ${user.id}` : "Add User"),
    !user && field({ id: "user-id", name: "id", label: "User name", control: id,
      hint: "Applications log in with it" }),
    field({ id: "user-full-name", name: "name", label: "Full name", control: name, hint: "Optional" }),
    !user && h("div", { class: "two" },
      field({ id: "user-password", name: "password", label: "Password", control: password,
        hint: "At least six characters" }),
      field({ id: "user-password-again", name: "again", label: "Password again", control: again })),
    roles.element,
    formError("user-error"), conflict.element,
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), submit));
  const dialog = openDialog(h("dialog", { id: "user-dialog" }, form));
  (user ? name : id).focus();

  onSubmit(form, submit, async () => {
    showErrors(form, {});
    const values = { name: name.value, roles: roles.text() };
    if (!user) {
      checkPasswords(password, again);
      if (!id.value) throw refusal({ id: "The name must not be empty." });
      values.password = password.value;
    }
    try {
      await putForm(userPath(user?.id ?? id.value), values, version);
    } catch (problem) {
      if (problem.status !== 412) throw user ? problem : atField(problem);
      if (!user) throw refusal({ id: "There is a user of this name already." });
      await showConflict(values);
      return false;
    }
  }, async () => {
    dialog.close();
    notice(user ? `${user.id} was changed` : `${id.value} was added`);
    await changed();
  });

  // Another client changed the user: a save would undo that.
  async function showConflict(mine) {
    const present = await getVersioned(userPath(user.id));
    ({ version } = present);
    if (!present.value) throw refusal({ _: `The user ${user.id} was deleted meanwhile.` });
    const theirs = { name: present.value.name, roles: rolesText(present.value.roles) };
    const lines = text => text.split(",").join("\n");
    const differences = [["Full name", mine.name, theirs.name],
      ["Roles", lines(mine.roles), lines(theirs.roles)]].filter(([, one, other]) => one !== other);
    conflict.show("Another client changed the user after this dialog was opened. Nothing has been saved. "
      + (differences.length ? "Saving now replaces the present name and roles by yours."
        : "The present name and roles are the same as yours."), differences, () => {
      name.value = theirs.name;
      roles.show(present.value.roles);
    });
  }
}

// The user's roles, one in each line; a role for buckets has a second choice beside it.
function roleList(grants, { roles, buckets }) {
  const lines = h("div", { id: "user-roles" });
  const error = h("p", { id: "user-roles-error", class: "error", "aria-live": "polite" });
  const add = h("button", { id: "user-role-add", class: "small", type: "button",
    onclick: () => addLine() }, "Add Role");
  const element = h("div", { class: "field" }, h("p", { class: "muted" }, "Roles"), lines, error, add);
  element.field = "roles";
  element.refuse = text => {
    error.textContent = text || "";
    for (const control of lines.querySelectorAll("select.role")) {
      control.setAttribute("aria-invalid", text ? "true" : "false");
    }
  };
  show(grants);
  return { element, text, show };

  function show(shown) {
    lines.replaceChildren();
    for (const grant of shown) addLine(grant);
    if (shown.length === 0) addLine();
  }

  function addLine(grant) {
    const description = h("p", { class: "hint" });
    const names = ["", ...roles.map(each => each.role)];
    const role = h("select", { class: "role", "aria-label": "Role", "aria-describedby": "user-roles-error",
      onchange: describe },
      names.map(each => h("option", { value: each, selected: each === (grant?.role ?? "") },
        titleOf(each))));
    const existing = grant?.bucket_name && grant.bucket_name !== "*" ? [grant.bucket_name] : [];
    const all = [...new Set([...existing, ...buckets])].sort();
    const bucket = h("select", { class: "bucket", "aria-label": "Bucket of the role" },
      h("option", { value: "*" }, "All buckets"),
      all.map(each => h("option", { value: each, selected: each === grant?.bucket_name }, each)));
    const line = h("div", { class: "line" },
      h("div", { class: "inline" }, role, bucket,
        h("button", { class: "small quiet", type: "button", title: "Remove this role",
          onclick: () => line.remove() }, "Remove")), description);
    lines.append(line);
    describe();

    function describe() {
      const found = roles.find(each => each.role === role.value);
      bucket.hidden = found?.bucket_name === undefined;
      description.textContent = found?.desc ?? "";
    }
  }

  function titleOf(role) {
    if (!role) return "Choose a role";
    return roles.find(each => each.role === role)?.name ?? role;
  }

  function text() {
    return [...lines.children].map(line => {
      const [role, bucket] = ["role", "bucket"].map(kind => line.querySelector(`select.${kind}`));
      if (!role.value) return null;
      return grantText({ role: role.value, bucket_name: bucket.hidden ? undefined : bucket.value });
    }).filter(Boolean).join(",");
  }
}

// MARK: Passwords

// An error of the form itself, in the shape of the server's.
const refusal = errors => Object.assign(new Error(Object.values(errors).join(" ")), { errors });

function checkPasswords(password, again) {
  if (password.value !== again.value) throw refusal({ again: "The two passwords differ." });
}

// The server names no field in errors of the user's name, because tools expect that.
function atField(problem) {
  const { _: text, ...errors } = problem.errors ?? {};
  return text && /name/i.test(text) ? refusal({ ...errors, id: text }) : problem;
}

// A new password for a user; nothing else of the user is sent.
function passwordDialog(user, changed) {
  openPasswordDialog(`Change the password of ${user.id}`,
    password => patchForm(userPath(user.id), { password }), async () => {
    notice(`The password of ${user.id} was changed`);
    await changed();
  });
}

// Asks for a new password and sends it.
export function openPasswordDialog(title, send, done) {
  const password = h("input", { type: "password", autocomplete: "new-password" });
  const again = h("input", { type: "password", autocomplete: "new-password" });
  const submit = h("button", { id: "password-submit", class: "primary", type: "submit" },
    "Change password");
  const form = h("form", { id: "password-form", novalidate: true }, h("h2", {}, title),
    field({ id: "password-new", name: "password", label: "New password", control: password,
      hint: "At least six characters. Sessions with the old password end." }),
    field({ id: "password-again", name: "again", label: "New password again", control: again }),
    formError("password-error"),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), submit));
  const dialog = openDialog(h("dialog", { id: "password-dialog" }, form));
  password.focus();
  onSubmit(form, submit, async () => {
    showErrors(form, {});
    checkPasswords(password, again);
    await send(password.value);
  }, async () => {
    dialog.close();
    await done();
  });
}
