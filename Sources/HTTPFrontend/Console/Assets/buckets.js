// The buckets: status, create, edit, flush, delete.

import { poll, post, remove, bucketPath, checkPermissions } from "/ui/api.js";
import { bucketDialog, networkWarning } from "/ui/bucketsettings.js";
import { h, setText, fill, bar, spark, count, size, notice, field, formError, onSubmit, openDialog, columns,
  row as tableRow, table } from "/ui/dom.js";

const createPermission = "cluster.buckets!create";
const headings = columns("Bucket", ["Documents", "number"], ["Ops/s", "number"], ["Last minute", "number"],
  ["In memory", "number"], ["Disk", "number"], "Memory", ["Actions", "actions"]);
const titles = { healthy: "Ready", warmup: "Warming up", unhealthy: "Some vBuckets are not served" };

export function buckets() {
  const body = h("tbody", { id: "bucket-table" });
  const empty = h("div", { class: "empty", hidden: true },
    "There are no buckets yet. A bucket holds documents and has its own share of memory.");
  const rows = new Map();
  let pool;
  const create = h("button", { id: "bucket-create-button", class: "primary", type: "button",
    hidden: true, onclick: () => bucketDialog(null, pool, refreshSoon) }, "Create New Data Bucket");
  const element = h("div", { id: "buckets" },
    h("div", { class: "head" }, h("h1", {}, "Data Buckets"), create),
    h("section", { class: "card" }, table(headings, body), empty));

  return { element, refresh };

  async function refreshSoon() { await refresh(pool); }

  async function refresh(current) {
    pool = current;
    const list = await poll("/pools/default/buckets?skipMap=true");
    const granted = await checkPermissions(
      [createPermission, ...list.flatMap(({ name }) => Object.values(permissionsOf(name)))]);
    create.hidden = !granted[createPermission];
    empty.hidden = list.length > 0;
    const seen = new Set();
    for (const bucket of list) {
      seen.add(bucket.uuid);
      if (!rows.has(bucket.uuid)) rows.set(bucket.uuid, bucketRow(refreshSoon, () => pool));
      const row = rows.get(bucket.uuid);
      if (!row.element.isConnected) body.append(row.element);
      row.show(bucket, isUnserved(bucket, pool), granted);
    }
    for (const [uuid, row] of rows) {
      if (seen.has(uuid)) continue;
      row.element.remove();
      rows.delete(uuid);
    }
  }
}

// The permissions that the buttons of a bucket's row need.
const permissionsOf = name => ({ read: `cluster.bucket[${name}].data.docs!read`,
  flush: `cluster.bucket[${name}]!flush`, change: `cluster.bucket[${name}].settings!write`,
  remove: `cluster.bucket[${name}]!delete` });

// A bucket's state is the worst state of its nodes.
function stateOf(bucket, isUnserved) {
  if (isUnserved) return "unhealthy";
  const states = bucket.nodes.map(node => node.status);
  return ["unhealthy", "warmup"].find(state => states.includes(state)) || "healthy";
}

// Some vBuckets have no active copy, although the bucket's remaining nodes are healthy.
const isUnserved = (bucket, pool) => (pool.bucketsNeedRebalance || []).some(
  ({ code, buckets }) => code === "vbuckets_not_served" && buckets.includes(bucket.name));

function bucketRow(changed, pool) {
  let bucket;
  const history = [];
  const dot = h("span", { class: "dot", role: "img" });
  const [name, tags] = [h("span"), h("div", { class: "tags" })];
  const [items, operations, resident, disk] = [0, 1, 2, 3].map(() => h("td"));
  const line = spark("Operations in the last minute");
  const [memory, meter] = [h("div", { class: "whole" }), bar("Memory used")];
  const browse = h("a", { class: "button small" }, "Documents");
  const flush = h("button", { class: "small", type: "button", onclick: flushBucket }, "Flush");
  const edit = h("button", { class: "small", type: "button",
    onclick: () => bucketDialog(bucket, pool(), changed) }, "Edit");
  const removal = h("button", { class: "small danger", type: "button",
    onclick: () => removalDialog(bucket.name, changed) }, "Delete");
  const element = tableRow(headings, {},
    h("td", {}, h("div", {}, h("div", { class: "named" }, dot, name), tags)), items, operations,
    h("td", {}, line), resident, disk, h("td", {}, h("div", {}, memory, meter)),
    h("td", {}, browse, " ", flush, " ", edit, " ", removal));

  return { element, show };

  function show(current, isUnserved, granted) {
    bucket = current;
    const stats = bucket.basicStats;
    const state = stateOf(bucket, isUnserved);
    element.dataset.bucket = bucket.name;
    dot.className = `dot ${state}`;
    dot.setAttribute("aria-label", titles[state]);
    dot.title = titles[state];
    setText(name, bucket.name);
    const marks = [bucket.bucketType === "ephemeral" && "ephemeral",
      bucket.passwordless && !bucket.passwordlessNetwork && "no password on loopback"].filter(Boolean);
    const warning = bucket.passwordlessNetwork && "no password from any address";
    if (tags.dataset.shown !== [...marks, warning].join()) {
      tags.dataset.shown = [...marks, warning].join();
      fill(tags, marks.map(mark => h("span", { class: "tag" }, mark)),
        warning && h("span", { class: "tag warning", title: networkWarning }, warning));
    }
    setText(items, count(stats.itemCount));
    setText(operations, count(stats.opsPerSec));
    if (!history.length) loadHistory();
    addToHistory(stats.opsPerSec);
    const absent = stats.itemCount ? stats.vbActiveNumNonResident / stats.itemCount : 0;
    setText(resident, `${Math.round(100 * (1 - absent))} %`);
    setText(disk, bucket.bucketType === "ephemeral" ? "none" : size(stats.diskUsed));
    setText(memory, `${size(stats.memUsed)} of ${size(bucket.quota.ram)}`);
    meter.show(stats.memUsed / bucket.quota.ram);
    browse.href = `#/documents/${encodeURIComponent(bucket.name)}`;
    const may = permissionsOf(bucket.name);
    browse.hidden = !granted[may.read];
    flush.hidden = !bucket.controllers.flush || !granted[may.flush];
    edit.hidden = !granted[may.change];
    removal.hidden = !granted[may.remove];
  }

  function addToHistory(...operations) {
    history.push(...operations);
    history.splice(0, history.length - 60);
    line.show(history);
  }

  // Loads the server's samples of the minute before the page was opened.
  async function loadHistory() {
    try {
      const { nodeStats } = await poll(`${bucketPath(bucket.name)}/stats/ops`);
      const nodes = Object.values(nodeStats);
      const sums = nodes[0].map((_, at) => nodes.reduce((sum, node) => sum + node[at], 0));
      history.unshift(...sums.slice(0, -1));
      addToHistory();
    } catch (error) {
      if (!error.errors) throw error;
    }
  }

  async function flushBucket() {
    if (!confirm(`Delete all documents of the bucket ${bucket.name}?`)) return;
    try {
      await post(bucket.controllers.flush);
      notice(`${bucket.name} was flushed`);
    } catch (error) {
      if (!error.errors) throw error;
      notice(error.message);
    }
    await changed();
  }

}

// MARK: Delete

// The name has to be typed: all documents are lost, and a click is easily one row too low.
function removalDialog(bucket, changed) {
  const name = h("input", { autocomplete: "off", spellcheck: "false" });
  const submit = h("button", { id: "bucket-remove", class: "danger", type: "submit", disabled: true },
    "Delete bucket");
  const form = h("form", { id: "bucket-removal-form", novalidate: true },
    h("h2", {}, `Delete ${bucket}`),
    h("p", {}, "The bucket is deleted with all its documents and views on all nodes."),
    field({ id: "bucket-removal-name", name: "name", control: name,
      label: `Type the name of the bucket, ${bucket}` }),
    formError("bucket-removal-error"),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), submit));
  const dialog = openDialog(h("dialog", { id: "bucket-removal-dialog" }, form));
  name.addEventListener("input", () => { submit.disabled = name.value !== bucket; });
  name.focus();
  onSubmit(form, submit, async () => {
    if (name.value !== bucket) return false;
    await remove(bucketPath(bucket));
  }, async () => {
    dialog.close();
    notice(`${bucket} was deleted`);
    await changed();
  });
}
