// The nodes: how each is, what a rebalance would change, and everything that adds or takes one out.

import { get, poll, post } from "/ui/api.js";
import { h, fill, say, bar, count, counted, size, duration, field, formError, notice, openDialog, showErrors,
  onSubmit } from "/ui/dom.js";
import { stateOf } from "/ui/overview.js";

const refusals = { mismatch: "The nodes are others by now. Look again.",
  empty_known_nodes: "There are no nodes to rebalance.",
  noKVNodesLeft: "No node would be left to hold documents.",
  deltaRecoveryNotPossible: "A node cannot come back with its old copies. Choose a full recovery." };

const isActive = node => node.clusterMembership === "active";

// Nodes that the next rebalance takes out; nobody but this page knows before it begins.
const leaving = new Set();

export function nodes() {
  let [pool, statuses] = [null, {}];
  const add = h("button", { id: "node-add", type: "button", onclick: () => addDialog(pool, again) },
    "Add node");
  const start = h("button", { id: "rebalance-start", class: "primary", type: "button",
    onclick: rebalance }, "Rebalance");
  const stop = h("button", { id: "rebalance-stop", class: "danger", type: "button",
    onclick: () => attempt(() => post(pool.stopRebalanceUri), "The rebalance stops", again) },
    "Stop rebalance");
  const balance = h("section", { id: "balance", class: "card", "aria-live": "polite" });
  const words = h("div");
  const meter = bar("Progress of the rebalance");
  const more = h("div", { class: "hint" });
  const cancelRetry = h("button", { id: "retry-cancel", class: "small", type: "button", hidden: true,
    onclick: () => attempt(() => post(`/controller/cancelRebalanceRetry/${pendingRetry}`),
      "It does not begin again by itself", again) }, "Do not begin again");
  let pendingRetry = null;
  let settings = null;
  const automaticWords = h("span");
  const reset = h("button", { id: "auto-failover-reset", class: "small", type: "button", hidden: true,
    onclick: () => attempt(() => post("/settings/autoFailover/resetCount"),
      "Nodes may be failed over again", again) }, "Reset the count");
  const change = h("button", { id: "auto-failover-change", class: "small", type: "button",
    onclick: () => automaticDialog(settings, again) }, "Change");
  const automatic = h("div", { id: "auto-failover", class: "hint" }, automaticWords, " ", change, " ",
    reset);
  fill(balance, words, meter, more, cancelRetry, automatic);
  const body = h("tbody", { id: "nodes-table" });
  const rows = new Map();
  const element = h("div", { id: "nodes" },
    h("div", { class: "head" }, h("h1", {}, "Nodes"),
      h("div", { class: "buttons head-buttons" }, add, stop, start)),
    balance,
    h("section", { class: "card scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Node", "State", "Group", "Documents", "CPU", "Memory", "Up for", ""]
        .map(text => h("th", { scope: "col" }, text)))), body)));

  return { element, refresh };

  async function refresh(current) {
    pool = current;
    const [tasks, found, failover, retry] = await Promise.all([poll("/pools/default/tasks"),
      poll("/nodeStatuses"), poll("/settings/autoFailover"),
      poll("/pools/default/pendingRetryRebalance")]);
    statuses = found;
    const task = tasks.find(one => one.type === "rebalance");
    const isRunning = pool.rebalanceStatus === "running";
    const names = new Set(pool.nodes.map(node => node.otpNode));
    const active = new Set(pool.nodes.filter(isActive).map(node => node.otpNode));
    // Whoever was failed over meanwhile, or is gone, was marked when that meant something else.
    for (const name of [...leaving]) if (!active.has(name)) leaving.delete(name);
    for (const [name, row] of rows) {
      if (names.has(name)) continue;
      row.element.remove();
      rows.delete(name);
    }
    for (const node of pool.nodes) {
      if (!rows.has(node.otpNode)) rows.set(node.otpNode, makeRow(() => pool, statusOf, again));
      const row = rows.get(node.otpNode);
      if (!row.element.isConnected) body.append(row.element);
      row.show(node, isRunning, task?.perNode?.[node.otpNode]?.progress);
    }
    showBalance(task, isRunning, failover.reasons || [], retry);
    showAutomatic(failover);
  }

  function statusOf(node) {
    return Object.values(statuses).find(status => status.otpNode === node.otpNode) || {};
  }

  function showAutomatic(failover) {
    const used = `${failover.count} of ${counted(failover.maxCount, "node")}`;
    settings = failover;
    say(automaticWords, failover.enabled
      ? `Automatic failover: after ${failover.timeout} s without an answer; ${used} so far.`
      : "Automatic failover: off. A node that does not answer stays in until somebody fails it over.");
    reset.hidden = !failover.count;
  }

  function showBalance(task, isRunning, reasons, retry) {
    const isPending = retry.retry_rebalance === "pending";
    cancelRetry.hidden = isRunning || !isPending;
    pendingRetry = isPending ? retry.rebalance_id : null;
    const isNeeded = !pool.balanced || leaving.size > 0;
    add.disabled = isRunning;
    start.disabled = isRunning || !isNeeded;
    stop.hidden = !isRunning;
    meter.hidden = !isRunning;
    if (isRunning) {
      meter.show((task?.progress || 0) / 100);
      const bucket = task?.detailedProgress;
      say(words, `${task?.subtype === "gracefulFailover" ? "Graceful failover" : "Rebalance"}: `
        + `${Math.round(task?.progress || 0)} % done`
        + (bucket?.bucket ? `, bucket ${bucket.bucket} (${bucket.bucketNumber} of ${bucket.bucketsCount})` : ""));
      say(more, task?.waitingFor ? `It waits: ${task.waitingFor}` : "");
      return;
    }
    say(words, isNeeded ? "A rebalance is needed." : "Every copy is in its place.");
    const texts = whyUnbalanced();
    const kind = task?.subtype === "gracefulFailover" ? "graceful failover" : "rebalance";
    if (task?.errorMessage) texts.unshift(`The last ${kind} did not finish: ${task.errorMessage}`);
    if (isPending) texts.unshift(`It begins again by itself in ${retry.retry_after_secs} s.`);
    if (reasons.length) texts.push(`Not failed over by itself: ${reasons.join(" ")}`);
    say(more, texts.join(" "));
  }

  function whyUnbalanced() {
    const texts = [];
    const some = (nodes, one, many) =>
      nodes.length && texts.push(`${nodes.join(", ")} ${nodes.length === 1 ? one : many}.`);
    const host = node => node.hostname;
    some(pool.nodes.filter(node => node.clusterMembership === "inactiveAdded").map(host),
      "waits to be brought in", "wait to be brought in");
    some(pool.nodes.filter(node => node.clusterMembership === "inactiveFailed").map(host),
      "was failed over, and leaves unless it is added back",
      "were failed over, and leave unless they are added back");
    some(pool.nodes.filter(node => leaving.has(node.otpNode)).map(host),
      "is marked to leave", "are marked to leave");
    for (const { description, buckets } of pool.bucketsNeedRebalance || []) {
      texts.push(`${description} (${buckets.join(", ")})`);
    }
    return texts;
  }

  async function rebalance() {
    const known = pool.nodes.map(node => node.otpNode);
    if (!mayLose(pool)) return;
    try {
      await post(pool.controllers.rebalance.uri,
        { knownNodes: known.join(","), ejectedNodes: [...leaving].join(",") });
      notice("The rebalance has begun");
    } catch (error) {
      if (!error.errors) throw error;
      const key = Object.keys(error.errors).find(name => refusals[name]);
      notice(key ? refusals[key] : error.message);
    }
    await again();
  }

  async function again() {
    pool = await get("/pools/default");
    await refresh(pool);
  }
}

// What only a node has that was failed over is gone once it is: somebody has to want that.
function mayLose(pool) {
  const lost = (pool.bucketsNeedRebalance || []).find(({ code }) => code === "vbuckets_not_served");
  const isComing = pool.nodes.some(node => node.recoveryType === "delta");
  return !lost || isComing || confirm(`${lost.description} (${lost.buckets.join(", ")})\n\nGo on all the same?`);
}

async function attempt(act, done, again) {
  try {
    await act();
    notice(done);
  } catch (error) {
    if (!error.errors) throw error;
    notice(error.message);
  }
  await again();
}

// MARK: One node

function makeRow(pool, statusOf, again) {
  let node;
  const [dot, host] = [h("span", { class: "dot" }), h("span")];
  const [state, group, items, cpu, memory, uptime] = [h("td"), h("td", { class: "muted" }), h("td"),
    h("td"), h("td"), h("td")];
  const tags = h("div", { class: "tags" });
  const actions = h("td", { class: "actions" });
  const meter = bar("Memory of the machine");
  const text = h("div");
  fill(memory, text, meter);
  const element = h("tr", {}, h("td", {}, h("div", { class: "named" }, dot, host), tags), state, group,
    items, cpu, memory, uptime, actions);
  return { element, show };

  function show(current, isRunning, progress) {
    node = current;
    element.dataset.node = node.hostname;
    dot.className = `dot ${node.status}`;
    say(host, node.hostname);
    if (!tags.hasChildNodes() && node.thisNode) fill(tags, h("span", { class: "tag" }, "this node"));
    const share = progress === undefined ? "" : ` (${Math.round(progress)} % done)`;
    say(state, (leaving.has(node.otpNode) ? "Leaves with the next rebalance" : stateOf(node)) + share);
    say(group, node.serverGroup || "");
    const stats = node.interestingStats;
    const isHeard = stats.curr_items !== undefined;
    say(items, isHeard
      ? `${count(stats.curr_items)}, ${counted(stats.vb_replica_curr_items, "copy", "copies")} of others'` : "–");
    say(cpu, isHeard ? `${Math.round(node.systemStats.cpu_utilization_rate)} %` : "–");
    say(text, isHeard ? `${size(node.memoryTotal - node.memoryFree)} of ${size(node.memoryTotal)}` : "–");
    meter.hidden = !isHeard;
    if (isHeard) meter.show(1 - node.memoryFree / node.memoryTotal);
    say(uptime, isHeard ? duration(Number(node.uptime)) : "–");
    showActions(isRunning);
  }

  // Made anew only where they are others: a button under the pointer stays.
  function showActions(isRunning) {
    const kind = [node.clusterMembership, node.recoveryType, leaving.has(node.otpNode), isRunning,
      pool().nodes.filter(isActive).length].join();
    if (actions.dataset.kind === kind) return;
    actions.dataset.kind = kind;
    fill(actions, ...(isRunning ? [] : choices()).flatMap(one => [one, " "]));
  }

  function choices() {
    const button = (name, words, act, style = "") => h("button", { class: `small ${style}`,
      type: "button", "data-action": name, onclick: act }, words);
    const send = (controller, form, done) => () =>
      attempt(() => post(pool().controllers[controller].uri, { otpNode: node.otpNode, ...form }),
        done, again);
    if (node.clusterMembership === "inactiveFailed") {
      return [
        button("delta", "Add back with its copies",
          send("setRecoveryType", { recoveryType: "delta" }, `${node.hostname} comes back`)),
        button("full", "Add back empty",
          send("setRecoveryType", { recoveryType: "full" }, `${node.hostname} comes back`)),
        button("eject", "Remove", () => mayLose(pool()) && send("ejectNode", {},
          `${node.hostname} was removed`)(), "danger")];
    }
    if (node.clusterMembership === "inactiveAdded") {
      return [node.recoveryType === "none"
        ? button("eject", "Do not add", send("ejectNode", {}, `${node.hostname} was removed`))
        : button("leave-out", "Leave failed over",
          send("reFailOver", {}, `${node.hostname} stays failed over`))];
    }
    if (leaving.has(node.otpNode)) return [button("keep", "Keep", () => mark(false))];
    if (pool().nodes.filter(isActive).length < 2) return [];
    return [button("fail-over", "Fail over", () => failoverDialog(pool(), node, statusOf(node), again)),
      button("remove", "Remove", () => mark(true), "danger")];
  }

  async function mark(isLeaving) {
    if (isLeaving) leaving.add(node.otpNode);
    else leaving.delete(node.otpNode);
    await again();
  }
}

// MARK: Adding

function addDialog(pool, again) {
  const host = h("input", { autocomplete: "off", spellcheck: "false", placeholder: "10.0.0.2:8091" });
  const user = h("input", { autocomplete: "off", value: "Administrator" });
  const password = h("input", { type: "password", autocomplete: "off" });
  const submit = h("button", { id: "node-submit", class: "primary", type: "submit" }, "Add");
  const form = h("form", { id: "node-form", novalidate: true },
    h("h2", {}, "Add a node"),
    h("p", { class: "muted" }, "It joins at once and holds nothing until the next rebalance."),
    field({ id: "node-host", name: "hostname", label: "Where it is", control: host,
      hint: "Host and admin port of a new node" }),
    h("details", {}, h("summary", {}, "It was set up before"), h("div", { class: "two" },
      field({ id: "node-user", name: "user", label: "Its administrator", control: user }),
      field({ id: "node-password", name: "password", label: "Password", control: password }))),
    formError("node-error"),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), submit));
  const dialog = openDialog(h("dialog", { id: "node-dialog" }, form));
  host.focus();

  onSubmit(form, submit, () => post(pool.controllers.addNode.uri, { hostname: host.value, user: user.value,
    password: password.value, services: "kv" }), async () => {
    dialog.close();
    notice(`${host.value} was added; a rebalance brings it in`);
    await again();
  });
}

// MARK: Failing over

function automaticDialog(settings, again) {
  const enabled = h("input", { type: "checkbox", checked: settings.enabled });
  const timeout = h("input", { type: "number", min: 1, max: 3600, value: settings.timeout });
  const most = h("input", { type: "number", min: 1, max: 100, value: settings.maxCount });
  const submit = h("button", { id: "auto-failover-submit", class: "primary", type: "submit" }, "Save");
  const form = h("form", { id: "auto-failover-form", novalidate: true },
    h("h2", {}, "Automatic failover"),
    h("p", { class: "muted" }, "Others take over from a node that a majority finds silent, where no "
      + "durable write is lost by that. It needs three nodes that decide."),
    field({ id: "auto-failover-enabled", name: "enabled", label: "Fail over by itself", control: enabled }),
    field({ id: "auto-failover-timeout", name: "timeout", label: "After so many seconds", control: timeout }),
    field({ id: "auto-failover-most", name: "maxCount", control: most,
      label: "So many nodes, until the count is reset" }),
    formError("auto-failover-error"),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), submit));
  const dialog = openDialog(h("dialog", { id: "auto-failover-dialog" }, form));
  onSubmit(form, submit, () => post("/settings/autoFailover", { enabled: enabled.checked, timeout: timeout.value,
    maxCount: most.value }), async () => {
    dialog.close();
    notice("Automatic failover was changed");
    await again();
  });
}

function failoverDialog(pool, node, status, again) {
  const isGraceful = status.gracefulFailoverPossible === true;
  const choice = (value, isChosen) => h("input", { type: "radio", name: "kind", value,
    id: `failover-${value}`, checked: isChosen, disabled: value === "graceful" && !isGraceful });
  const [graceful, hard] = [choice("graceful", isGraceful), choice("hard", !isGraceful)];
  const sure = h("input", { type: "checkbox" });
  const loss = h("div", {}, h("p", { class: "error" }, whatMayBeLost(node, status)),
    field({ id: "failover-sure", control: sure, label: "Do it, and lose what may be lost" }));
  const submit = h("button", { id: "failover-submit", class: "danger", type: "submit" }, "Fail over");
  const form = h("form", { id: "failover-form", novalidate: true },
    h("h2", {}, `Fail over ${node.hostname}`),
    h("div", { class: "field" }, h("label", { class: "check", for: graceful.id }, graceful,
      "Gracefully: others take over one vBucket after the other, and nothing is lost"),
      !isGraceful && h("p", { class: "hint" }, status.status === "healthy"
        ? "Not possible: it serves vBuckets that nobody else has a copy of."
        : "Not possible: the node does not answer, or is not ready.")),
    h("div", { class: "field" }, h("label", { class: "check", for: hard.id }, hard,
      "At once: for a node that is gone")),
    loss, formError("failover-error"),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), submit));
  const dialog = openDialog(h("dialog", { id: "failover-dialog" }, form));
  form.addEventListener("change", offer);
  offer();

  function offer() {
    loss.hidden = !hard.checked;
    submit.disabled = hard.checked && !sure.checked;
  }

  form.addEventListener("submit", async event => {
    event.preventDefault();
    submit.disabled = true;
    const controller = hard.checked ? "failOver" : "startGracefulFailover";
    try {
      await post(pool.controllers[controller].uri, { otpNode: node.otpNode });
    } catch (error) {
      if (!error.errors) throw error;
      offer();
      return showErrors(form, error.errors);
    }
    dialog.close();
    notice(hard.checked ? `${node.hostname} was failed over` : "The graceful failover has begun");
    await again();
  });
}

function whatMayBeLost(node, status) {
  const recent = "Changes of the last moments that no other node has yet are lost.";
  if (status.dataless) return "The node holds no documents: nothing is lost.";
  if (!status.onlyCopy) return recent;
  return `${recent} Of some of its vBuckets nobody else who answers has a copy: they serve nothing until `
    + `${node.hostname} comes back, and what they hold is lost if it does not.`;
}
