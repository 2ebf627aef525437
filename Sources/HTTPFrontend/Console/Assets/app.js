// The console's frame: login and setup, the current section, and its refresh every second.

import { get, poll, post, send, checkPermissions, forgetPermissions, LoggedOut, Refused } from "/ui/api.js";
import { h, fill, setText, field, formError, showErrors, listOf, hasChangedDialog, suspendDialogs,
  resumeDialogs, discardDialogs } from "/ui/dom.js";
import { overview } from "/ui/overview.js";
import { nodes } from "/ui/nodes.js";
import { buckets } from "/ui/buckets.js";
import { documents } from "/ui/documents.js";
import { views, hasDrafts, discardDrafts } from "/ui/views.js";
import { users, openPasswordDialog } from "/ui/users.js";
import { log } from "/ui/log.js";

const sections = { overview, nodes, buckets, documents, views, users, log };
// The permission that a section needs; the others show what the user may see of them.
const needs = { nodes: "cluster.nodes!read", users: "cluster.admin.security!read",
  log: "cluster.logs!read" };
const main = document.getElementById("main");
const titles = { overview: "Overview", nodes: "Nodes", buckets: "Data Buckets", documents: "Documents",
  views: "Views", users: "Users", log: "Log" };
// `user` stays after a session has ended: unsaved texts are for this user only.
const page = { section: null, name: null, pool: null, user: null, answeredAt: null };
const menu = document.getElementById("menu");

const hasUnsaved = () => hasDrafts() || hasChangedDialog();

function discardUnsaved() {
  discardDrafts();
  discardDialogs();
}

document.getElementById("logout").addEventListener("click", async () => {
  if (hasUnsaved() && !confirm("Log out and discard the texts that are not saved?")) return;
  await post("/uilogout").catch(() => {});
  location.hash = "";
  showLogin();
  discardUnsaved();
});
addEventListener("beforeunload", event => { if (hasUnsaved()) event.preventDefault(); });
menu.addEventListener("click", () => showMenu(menu.getAttribute("aria-expanded") !== "true"));
addEventListener("keydown", event => { if (event.key === "Escape") showMenu(false); });
document.getElementById("change-password").addEventListener("click", () =>
  openPasswordDialog("Change your password",
    password => post("/controller/changePassword", { password }),
    () => showLogin("Your password was changed. Log in with it.")));
addEventListener("hashchange", route);
addEventListener("unhandledrejection", event => {
  if (!(event.reason instanceof LoggedOut)) return;
  event.preventDefault();
  showLogin("Your session is over. Log in again.");
});

begin();
setInterval(refresh, 1000);

// Retries every second until the server answers: it may be starting or restarting.
async function begin() {
  try {
    const pools = await get("/pools");
    if (pools.pools.length === 0) return await showSetup();
    await enter();
  } catch (error) {
    if (error instanceof LoggedOut) return showLogin();
    fill(main, h("section", { class: "card narrow" }, h("h1", {}, "Not now"),
      h("p", { class: "error" }, error.message),
      h("p", { class: "muted" }, "Retrying every second.")));
    setTimeout(begin, 1000);
  }
}

// Shows the sections that the session's user may open.
async function enter() {
  const me = await get("/whoami");
  if (page.user !== null && page.user !== me.id) discardUnsaved();
  page.user = me.id;
  forgetPermissions();
  const granted = await checkPermissions(Object.values(needs));
  for (const [name, permission] of Object.entries(needs)) {
    document.getElementById(`nav-${name}`).hidden = !granted[permission];
  }
  setText(document.getElementById("user-name"), me.id);
  document.getElementById("change-password").hidden = me.domain !== "local";
  document.getElementById("top").hidden = false;
  route();
  resumeDialogs();
}

function leave() {
  page.section = null;
  document.getElementById("top").hidden = true;
  const alerts = document.getElementById("alerts");
  alerts.replaceChildren();
  delete alerts.dataset.shown;
  main.classList.remove("away");
  document.title = "Divan";
  showMenu(false);
  suspendDialogs();
}

// The sections and the user's buttons where the window is too narrow for them in one row.
function showMenu(isOpen) {
  menu.setAttribute("aria-expanded", isOpen);
  document.getElementById("menu-content").classList.toggle("open", isOpen);
}

// MARK: Sections

function route() {
  if (document.getElementById("top").hidden) return;
  const [, name, ...rest] = location.hash.split("/");
  const make = sections[name];
  if (!make || document.getElementById(`nav-${name}`).hidden) {
    location.replace("#/overview");
    return;
  }
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.id === `nav-${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  page.section = make(rest.map(decodeURIComponent));
  page.name = name;
  setText(menu, titles[name]);
  showMenu(false);
  fill(main, page.section.element);
  scrollTo(0, 0);
  const heading = main.querySelector("h1");
  heading.tabIndex = -1;
  if (!document.querySelector("dialog[open]")) heading.focus({ preventScroll: true });
  showTitle();
  refresh();
}

function showTitle() {
  const title = [titles[page.name], page.pool?.clusterName, "Divan"].filter(Boolean).join(" – ");
  if (document.title !== title) document.title = title;
}

let isRefreshing = false;
async function refresh() {
  const section = page.section;
  if (!section || isRefreshing || document.hidden) return;
  isRefreshing = true;
  let pool;
  try {
    page.pool = pool = await poll("/pools/default");
    if (page.section !== section) return;
    page.answeredAt = new Date();
    showPool(pool);
    await section.refresh?.(pool);
  } catch (error) {
    if (page.section !== section) return;
    if (error instanceof LoggedOut) showLogin("Your session is over. Log in again.");
    else if (!(error instanceof Refused)) throw error;
    else if (error.status === 404 && !pool) beginAgain();
    else showUnreachable(error);
  } finally {
    isRefreshing = false;
  }
}

function showPool(pool) {
  setText(document.getElementById("cluster-name"), pool.clusterName);
  showTitle();
  main.classList.remove("away");
  showAlerts(pool.alerts.map(alert => alert.msg));
}

function showAlerts(texts, more = []) {
  const alerts = document.getElementById("alerts");
  if (alerts.dataset.shown === texts.join("\n")) return;
  alerts.dataset.shown = texts.join("\n");
  fill(alerts, listOf(texts), more);
}

// The node is no longer a member of a cluster.
function beginAgain() {
  leave();
  begin();
}

// The server does not answer or is starting: the states are grey, since they may be others now.
function showUnreachable(error) {
  const text = [0, 403].includes(error.status) ? error.message : `The server refuses to answer: ${error.message}`;
  if (error.status === 403) return showAlerts([text]);
  main.classList.add("away");
  const known = page.answeredAt ? ` This page shows the state of ${page.answeredAt.toLocaleTimeString()}.` : "";
  const others = (page.pool?.nodes ?? []).filter(node => !node.thisNode)
    .map(node => h("a", { href: `http://${node.hostname}/ui/index.html${location.hash}` }, node.hostname));
  showAlerts([text + known],
    others.length ? h("p", {}, "Open the page of another node: ", others.flatMap(link => [link, " "])) : []);
}

// MARK: Login and setup

function showLogin(text = "") {
  leave();
  const user = h("input", { autocomplete: "username", required: true, autofocus: true });
  const password = h("input", { type: "password", autocomplete: "current-password" });
  const form = h("form", { id: "login-form", class: "card narrow", novalidate: true },
    h("h1", {}, "Welcome to Divan"),
    h("p", { class: "muted" }, "Log in to manage your cluster."),
    hasUnsaved() && h("p", { class: "hint" },
      `What ${page.user} has not saved is kept for this user, until another user logs in.`),
    field({ id: "login-user", name: "user", label: "User name", control: user }),
    field({ id: "login-password", name: "password", label: "Password", control: password }),
    formError("login-error"),
    h("div", { class: "buttons" },
      h("button", { id: "login-submit", class: "primary", type: "submit" }, "Log in")));
  form.addEventListener("submit", async event => {
    event.preventDefault();
    try {
      await post("/uilogin", { user: user.value, password: password.value });
      await enter();
    } catch (error) {
      if (error.status === 403) return refuseLogin(form, error);
      showErrors(form, error.errors || { _: error.message });
      password.select();
    }
  });
  fill(main, form);
  fill(form.querySelector(".form-error"), listOf(text ? [text] : []));
  user.focus();
}

function refuseLogin(form, error) {
  showErrors(form, { _: `This user's roles do not include the console. ${error.message}` });
}

async function showSetup() {
  leave();
  // From another machine a new node answers nothing but that it is new, unless the request has its token.
  const node = await get("/nodes/self").catch(error => {
    if (error instanceof LoggedOut) return null;
    throw error;
  });
  const token = h("input", { autocomplete: "off", spellcheck: "false" });
  const name = h("input", { autocomplete: "off" });
  const user = h("input", { autocomplete: "username", value: "Administrator" });
  const password = h("input", { type: "password", autocomplete: "new-password" });
  const again = h("input", { type: "password", autocomplete: "new-password" });
  const quota = h("input", { type: "number", min: 256, value: node ? node.memoryQuota : "" });
  const form = h("form", { id: "setup-form", class: "card narrow", novalidate: true },
    h("h1", {}, "Set up your cluster"),
    h("p", { class: "muted" }, node
      ? "This node is new. Until it has an administrator, every request from its own machine is allowed."
      : "This node is new. From another machine it can be set up only with its token."),
    !node && field({ id: "setup-token", name: "token", label: "Token", control: token,
      hint: "The content of the file init-token in the node's data directory" }),
    field({ id: "setup-name", name: "clusterName", label: "Cluster name", control: name }),
    field({ id: "setup-user", name: "username", label: "Administrator", control: user }),
    field({ id: "setup-password", name: "password", label: "Password", control: password,
      hint: "At least six characters" }),
    field({ id: "setup-password-again", name: "again", label: "Password again", control: again }),
    field({ id: "setup-quota", name: "memoryQuota", label: "Memory for documents, in MB",
      control: quota, hint: `For all buckets together, on each node${node ? "" : "; empty for the default"}` }),
    formError("setup-error"),
    h("div", { class: "buttons" },
      h("button", { id: "setup-submit", class: "primary", type: "submit" }, "Set up")));
  form.addEventListener("submit", async event => {
    event.preventDefault();
    if (password.value !== again.value) {
      return showErrors(form, { again: "The two passwords differ." });
    }
    try {
      const values = { port: "SAME", services: "kv", clusterName: name.value,
        username: user.value, password: password.value };
      if (quota.value || node) values.memoryQuota = quota.value;
      await send("POST", "/clusterInit", values, { token: node ? null : token.value.trim() });
      await post("/uilogin", { user: user.value, password: password.value });
      await enter();
    } catch (error) {
      if (error instanceof LoggedOut) {
        const { pools } = await get("/pools").catch(() => ({ pools: [] }));
        if (!node && pools.length === 0) return showErrors(form, { token: "This is not the node's token." });
        return showLogin("This cluster has been set up meanwhile.");
      }
      showErrors(form, error.errors || { _: error.message });
    }
  });
  fill(main, form);
  name.focus();
}
