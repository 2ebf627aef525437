// A bucket's settings: the dialog that creates a bucket, and the one that changes it.

import { getVersioned, post, bucketPath } from "/ui/api.js";
import { conflictArea } from "/ui/conflict.js";
import { h, fill, count, notice, field, formError, showErrors, openDialog } from "/ui/dom.js";

const option = (value, text, chosen) => h("option", { value, selected: value === chosen }, text);

export const networkWarning = "Every client that reaches the ports reads and writes the documents. "
  + "Safer is a local user of the bucket's name.";

// The names of the settings that can be changed, as the dialog shows them.
const labels = { ramQuota: "Memory quota in MB", replicaNumber: "Replicas", flushEnabled: "Enable flush",
  evictionPolicy: "When memory runs short", passwordless: "Allow access without a password",
  maxTTL: "Maximum time to live in seconds", durabilityMinLevel: "Writes are acknowledged when stored" };

const passwordlessOf = bucket => bucket?.passwordlessNetwork ? "network" : bucket?.passwordless ? "1" : "0";

// The settings of a bucket as the form has them.
const valuesOf = bucket => ({ ramQuota: String(bucket.quota.rawRAM / 1048576),
  replicaNumber: String(bucket.replicaNumber), flushEnabled: bucket.controllers.flush ? "1" : "0",
  evictionPolicy: bucket.evictionPolicy, passwordless: passwordlessOf(bucket), maxTTL: String(bucket.maxTTL),
  durabilityMinLevel: bucket.durabilityMinLevel });

// Opens the dialog of a bucket as it is now; without a bucket, for a new one.
export async function bucketDialog(listed, pool, changed) {
  if (!listed) return openSettings(null, undefined, pool, changed);
  try {
    const { value, version } = await getVersioned(`${bucketPath(listed.name)}?skipMap=true`);
    if (value) return openSettings(value, version, pool, changed);
    notice(`${listed.name} was deleted`);
  } catch (problem) {
    if (!problem.errors) throw problem;
    notice(problem.message);
  }
}

function openSettings(bucket, openedVersion, pool, changed) {
  const isNew = !bucket;
  let version = openedVersion;
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
  const openNow = passwordlessOf(bucket);
  const open = h("select", {}, option("0", "No", openNow), option("1", "From loopback", openNow),
    option("network", "From every address", openNow));
  const openWarning = h("p", { id: "bucket-passwordless-warning", class: "warning" }, networkWarning);
  const showWarning = () => { openWarning.hidden = open.value !== "network"; };
  open.addEventListener("change", showWarning);
  showWarning();
  const ttl = h("input", { type: "number", min: 0, value: bucket ? bucket.maxTTL : 0 });
  let level = bucket?.durabilityMinLevel || "none";
  const durability = h("select", {},
    option("none", "As each write requests", level),
    option("majority", "In memory on a majority", level),
    option("majorityAndPersistActive", "The same, and on the active node's disk", level),
    option("persistToMajority", "On disk on a majority", level));
  if (isNew) kind.addEventListener("change", () => showEvictionPolicies(kind.value));
  showEvictionPolicies(isNew ? "couchbase" : type);
  if (!isNew) eviction.value = bucket.evictionPolicy;
  if (!isNew && type === "ephemeral") eviction.disabled = true;

  const conflict = conflictArea("bucket-conflict");
  const controls = { ramQuota: quota, replicaNumber: replicas, evictionPolicy: eviction, passwordless: open,
    maxTTL: ttl, durabilityMinLevel: durability };
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
    formError("bucket-error"), conflict.element,
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      h("button", { id: "bucket-submit", class: "primary", type: "submit" },
        isNew ? "Create" : "Save")));
  const dialog = openDialog(h("dialog", { id: "bucket-dialog" }, form));
  (isNew ? name : quota).focus();

  form.addEventListener("submit", async event => {
    event.preventDefault();
    const values = entered();
    if (isNew) Object.assign(values, { name: name.value, bucketType: kind.value,
      numVBuckets: vBuckets.value });
    if (durability.value === level) delete values.durabilityMinLevel;
    try {
      await post(isNew ? "/pools/default/buckets" : bucketPath(bucket.name), values, version);
    } catch (error) {
      if (!error.errors) throw error;
      if (error.status === 412) return await showConflict();
      // The server names the field in two ways, which tools expect.
      const { durability_min_level: refused, ...errors } = error.errors;
      return showErrors(form, refused ? { ...errors, durabilityMinLevel: refused } : errors);
    }
    dialog.close();
    notice(isNew ? `${name.value} was created` : `${bucket.name} was changed`);
    await changed();
  });

  function entered() {
    const values = Object.entries(controls).map(([name, control]) => [name, control.value]);
    return { ...Object.fromEntries(values), flushEnabled: flush.checked ? "1" : "0" };
  }

  // Another client changed the settings: a save would undo that.
  async function showConflict() {
    let present;
    try {
      ({ value: present, version } = await getVersioned(`${bucketPath(bucket.name)}?skipMap=true`));
    } catch (problem) {
      if (!problem.errors) throw problem;
      return showErrors(form, problem.errors);
    }
    if (!present) return showErrors(form, { _: `The bucket ${bucket.name} was deleted meanwhile.` });
    showErrors(form, {});
    const [mine, theirs] = [entered(), valuesOf(present)];
    level = theirs.durabilityMinLevel;
    const differences = Object.keys(labels).filter(name => mine[name] !== theirs[name]);
    conflict.show("Another client changed the settings after this dialog was opened. Nothing has been saved. "
      + (differences.length ? "Saving now replaces the present settings by yours."
        : "The present settings are the same as yours."),
    differences.map(name => [labels[name], mine[name], theirs[name]]), () => {
      for (const [name, control] of Object.entries(controls)) control.value = theirs[name];
      flush.checked = theirs.flushEnabled === "1";
      showWarning();
    });
  }

  function showEvictionPolicies(chosen) {
    fill(eviction, ...(chosen === "ephemeral"
      ? [option("noEviction", "Refuse writes"),
        option("nruEviction", "Delete the least recently used documents")]
      : [option("valueOnly", "Eject values, keep keys"), option("fullEviction", "Eject documents")]));
  }
}
