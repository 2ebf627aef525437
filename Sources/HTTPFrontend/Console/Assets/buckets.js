// The buckets: status, create, edit, flush, delete.

import { poll, post, remove, bucketPath, checkPermissions } from "/ui/api.js";
import { h, setText, fill, bar, spark, count, size, notice, field, formError, showErrors,
  openDialog } from "/ui/dom.js";

const createPermission = "cluster.buckets!create";
const titles = { healthy: "Ready", warmup: "Warming up", unhealthy: "Some vBuckets are not served" };

export function buckets() {
  const body = h("tbody", { id: "bucket-table" });
  const empty = h("div", { class: "empty", hidden: true },
    "There are no buckets yet. A bucket holds documents and has its own share of memory.");
  const rows = new Map();
  let pool;
  let mayCreate = null;
  const create = h("button", { id: "bucket-create-button", class: "primary", type: "button",
    hidden: true, onclick: () => bucketDialog(null, pool, refreshSoon) }, "Create New Data Bucket");
  const element = h("div", { id: "buckets" },
    h("div", { class: "head" }, h("h1", {}, "Data Buckets"), create),
    h("section", { class: "card scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Bucket"),
        ["Documents", "Ops/s", "Last minute", "In memory", "Disk"].map(text =>
          h("th", { scope: "col", class: "number" }, text)),
        h("th", { scope: "col" }, "Memory"), h("th", {}, h("span", { class: "skip" }, "Actions")))),
    body), empty));

  return { element, refresh };

  async function refreshSoon() { await refresh(pool); }

  async function refresh(current) {
    pool = current;
    if (mayCreate === null) {
      mayCreate = (await checkPermissions([createPermission]))[createPermission];
      create.hidden = !mayCreate;
    }
    const list = await poll("/pools/default/buckets?skipMap=true");
    empty.hidden = list.length > 0;
    const seen = new Set();
    for (const bucket of list) {
      seen.add(bucket.uuid);
      if (!rows.has(bucket.uuid)) rows.set(bucket.uuid, bucketRow(refreshSoon, () => pool));
      const row = rows.get(bucket.uuid);
      if (!row.element.isConnected) body.append(row.element);
      row.show(bucket, isUnserved(bucket, pool));
    }
    for (const [uuid, row] of rows) {
      if (seen.has(uuid)) continue;
      row.element.remove();
      rows.delete(uuid);
    }
  }
}

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
  const [items, operations, resident, disk] = [0, 1, 2, 3].map(() => h("td", { class: "number" }));
  const line = spark("Operations in the last minute");
  const [memory, meter] = [h("div", { class: "whole" }), bar("Memory used")];
  const browse = h("a", { class: "button small" }, "Documents");
  const flush = h("button", { class: "small", type: "button", onclick: flushBucket }, "Flush");
  const element = h("tr", {},
    h("td", {}, h("div", { class: "named" }, dot, name), tags), items, operations,
    h("td", {}, line), resident, disk, h("td", {}, memory, meter),
    h("td", { class: "actions" }, browse, " ", flush, " ",
      h("button", { class: "small", type: "button",
        onclick: () => bucketDialog(bucket, pool(), changed) }, "Edit"), " ",
      h("button", { class: "small danger", type: "button", onclick: deleteBucket }, "Delete")));

  return { element, show };

  function show(current, isUnserved) {
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
    flush.hidden = !bucket.controllers.flush;
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
    await attempt(() => post(bucket.controllers.flush), `${bucket.name} was flushed`);
  }

  async function deleteBucket() {
    if (!confirm(`Delete the bucket ${bucket.name} and all its documents?`)) return;
    await attempt(() => remove(bucketPath(bucket.name)), `${bucket.name} was deleted`);
  }

  async function attempt(act, done) {
    try {
      await act();
      notice(done);
    } catch (error) {
      if (!error.errors) throw error;
      notice(error.message);
    }
    await changed();
  }
}

// MARK: Create and edit

const option = (value, text, chosen) => h("option", { value, selected: value === chosen }, text);

const networkWarning = "Every client that reaches the ports reads and writes the documents. "
  + "Safer is a local user of the bucket's name.";

function bucketDialog(bucket, pool, changed) {
  const isNew = !bucket;
  const type = bucket?.bucketType || "membase";
  const name = h("input", { autocomplete: "off", spellcheck: "false", maxlength: 200 });
  const used = pool ? pool.storageTotals.ram.quotaUsedPerNode : 0;
  const free = pool ? (pool.storageTotals.ram.quotaTotalPerNode - used) / 1048576 : 0;
  const own = bucket ? bucket.quota.rawRAM / 1048576 : 0;
  const quota = h("input", { type: "number", min: 100, step: 1,
    value: isNew ? Math.max(100, Math.min(256, Math.floor(free))) : own });
  const replicas = h("select", {}, [0, 1, 2, 3].map(number => option(String(number),
    number === 0 ? "None" : String(number), String(bucket ? bucket.replicaNumber : 1))));
  const flush = h("input", { type: "checkbox", checked: Boolean(bucket?.controllers.flush) });
  const kind = h("select", {}, option("couchbase", "On disk and in memory", "couchbase"),
    option("ephemeral", "In memory only", "couchbase"));
  const eviction = h("select");
  const vBuckets = h("select", {}, ["64", "128", "256", "1024"].map(text =>
    option(text, text, "1024")));
  const openNow = bucket?.passwordlessNetwork ? "network" : bucket?.passwordless ? "1" : "0";
  const open = h("select", {}, option("0", "No", openNow), option("1", "From loopback", openNow),
    option("network", "From every address", openNow));
  const openWarning = h("p", { id: "bucket-passwordless-warning", class: "warning" }, networkWarning);
  const showWarning = () => { openWarning.hidden = open.value !== "network"; };
  open.addEventListener("change", showWarning);
  showWarning();
  const ttl = h("input", { type: "number", min: 0, value: bucket ? bucket.maxTTL : 0 });
  const level = bucket?.durabilityMinLevel || "none";
  const durability = h("select", {},
    option("none", "As each write requests", level),
    option("majority", "In memory on a majority", level),
    option("majorityAndPersistActive", "The same, and on the active node's disk", level),
    option("persistToMajority", "On disk on a majority", level));
  if (isNew) kind.addEventListener("change", () => showEvictionPolicies(kind.value));
  showEvictionPolicies(isNew ? "couchbase" : type);
  if (!isNew) eviction.value = bucket.evictionPolicy;
  if (!isNew && type === "ephemeral") eviction.disabled = true;

  const form = h("form", { id: "bucket-form", novalidate: true },
    h("h2", {}, isNew ? "Create New Data Bucket" : `Edit ${bucket.name}`),
    isNew && field({ id: "bucket-name", name: "name", label: "Bucket name", control: name }),
    h("div", { class: "two" },
      field({ id: "bucket-quota", name: "ramQuota", label: "Memory quota in MB", control: quota,
        hint: `On each node; free: ${count(Math.floor(free + own))} MB` }),
      field({ id: "bucket-replicas", name: "replicaNumber", label: "Replicas", control: replicas,
        hint: "Copies on other nodes" })),
    field({ id: "bucket-flush", name: "flushEnabled", control: flush,
      label: "Enable flush: all documents may be deleted at once" }),
    h("details", {}, h("summary", {}, "Advanced settings"),
      h("div", { class: "two" },
        isNew && field({ id: "bucket-type", name: "bucketType", label: "Storage",
          control: kind }),
        field({ id: "bucket-eviction", name: "evictionPolicy", label: "When memory runs short",
          control: eviction }),
        isNew && field({ id: "bucket-vbuckets", name: "numVBuckets", label: "vBuckets",
          control: vBuckets }),
        field({ id: "bucket-ttl", name: "maxTTL", label: "Maximum time to live in seconds", control: ttl,
          hint: "0 for no limit" })),
      field({ id: "bucket-durability", name: "durabilityMinLevel", control: durability,
        label: "Writes are acknowledged when stored", hint: "Not available with 3 replicas" }),
      field({ id: "bucket-passwordless", name: "passwordless", control: open,
        label: "Allow access without a password",
        hint: "For old clients and for experiments" }),
      openWarning),
    formError("bucket-error"),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      h("button", { id: "bucket-submit", class: "primary", type: "submit" },
        isNew ? "Create" : "Save")));
  const dialog = openDialog(h("dialog", { id: "bucket-dialog" }, form));
  (isNew ? name : quota).focus();

  form.addEventListener("submit", async event => {
    event.preventDefault();
    const values = { ramQuota: quota.value, replicaNumber: replicas.value,
      flushEnabled: flush.checked ? 1 : 0, evictionPolicy: eviction.value,
      passwordless: open.value, maxTTL: ttl.value };
    if (isNew) Object.assign(values, { name: name.value, bucketType: kind.value,
      numVBuckets: vBuckets.value });
    if (durability.value !== level) values.durabilityMinLevel = durability.value;
    try {
      await post(isNew ? "/pools/default/buckets" : bucketPath(bucket.name), values);
    } catch (error) {
      if (!error.errors) throw error;
      // The server names the field in two ways, which tools expect.
      const { durability_min_level: refused, ...errors } = error.errors;
      return showErrors(form, refused ? { ...errors, durabilityMinLevel: refused } : errors);
    }
    dialog.close();
    notice(isNew ? `${name.value} was created` : `${bucket.name} was changed`);
    await changed();
  });

  function showEvictionPolicies(chosen) {
    fill(eviction, ...(chosen === "ephemeral"
      ? [option("noEviction", "Refuse writes"),
        option("nruEviction", "Delete the least recently used documents")]
      : [option("valueOnly", "Eject values, keep keys"), option("fullEviction", "Eject documents")]));
  }
}
