// The nodes: status, rebalance, and the dialogs that add, remove and fail over nodes.

import { get, poll, post, checkPermissions } from "/ui/api.js";
import { h, fill, setText, bar, count, counted, size, duration, field, formError, notice, openDialog, showErrors,
  onSubmit, columns, row as tableRow, table } from "/ui/dom.js";
import { stateOf } from "/ui/overview.js";

const refusals = { mismatch: "The node list changed. Reload and retry.",
  empty_known_nodes: "There are no nodes to rebalance.",
  noKVNodesLeft: "No data node would remain.",
  deltaRecoveryNotPossible: "A node cannot recover with its old copies. Choose a full recovery." };

const headings = columns("Node", "State", "Group", "Documents", "CPU", "Memory", "Up for",
  ["Actions", "actions"]);
const permissions = { change: "cluster.pools!write", settings: "cluster.settings!write" };

const isActive = node => node.clusterMembership === "active";

// Nodes that the next rebalance removes; only this page stores the choice until the rebalance starts.
const leaving = new Set();

export function nodes() {
  let [pool, statuses] = [null, {}];
  let granted = {};
  const add = h("button", { id: "node-add", type: "button", onclick: () => addDialog(pool, reload) },
    "Add node");
  const start = h("button", { id: "rebalance-start", class: "primary", type: "button",
    onclick: rebalance }, "Rebalance");
  const stop = h("button", { id: "rebalance-stop", class: "danger", type: "button",
    onclick: () => attempt(() => post(pool.stopRebalanceUri), "The rebalance stops", reload) },
    "Stop rebalance");
  const balance = h("section", { id: "balance", class: "card", "aria-live": "polite" });
  const words = h("div");
  const meter = bar("Progress of the rebalance");
  const more = h("div", { class: "hint" });
  const cancelRetry = h("button", { id: "retry-cancel", class: "small", type: "button", hidden: true,
    onclick: () => attempt(() => post(`/controller/cancelRebalanceRetry/${pendingRetry}`),
      "The retry was cancelled", reload) }, "Cancel retry");
  let pendingRetry = null;
  let settings = null;
  const automaticWords = h("span");
  const reset = h("button", { id: "auto-failover-reset", class: "small", type: "button", hidden: true,
    onclick: () => attempt(() => post("/settings/autoFailover/resetCount"),
      "Automatic failover is possible again", reload) }, "Reset the count");
  const change = h("button", { id: "auto-failover-change", class: "small", type: "button",
    onclick: () => automaticDialog(settings, reload) }, "Change");
  const automatic = h("div", { id: "auto-failover", class: "hint" }, automaticWords, " ", change, " ",
    reset);
  fill(balance, words, meter, more, cancelRetry, automatic);
  const body = h("tbody", { id: "nodes-table" });
  const rows = new Map();
  const element = h("div", { id: "nodes" },
    h("div", { class: "head" }, h("h1", {}, "Nodes"),
      h("div", { class: "buttons head-buttons" }, add, stop, start)),
    balance,
    h("section", { class: "card" }, table(headings, body)));

  return { element, refresh };

  async function refresh(current) {
    pool = current;
    const [tasks, found, failover, retry] = await Promise.all([poll("/pools/default/tasks"),
      poll("/nodeStatuses"), poll("/settings/autoFailover"),
      poll("/pools/default/pendingRetryRebalance")]);
    statuses = found;
    granted = await checkPermissions(Object.values(permissions));
    add.hidden = start.hidden = !granted[permissions.change];
    change.hidden = !granted[permissions.settings];
    const task = tasks.find(each => each.type === "rebalance");
    const isRunning = pool.rebalanceStatus === "running";
    const names = new Set(pool.nodes.map(node => node.otpNode));
    const active = new Set(pool.nodes.filter(isActive).map(node => node.otpNode));
    // A mark to leave is obsolete if the node has been failed over or removed since.
    for (const name of [...leaving]) if (!active.has(name)) leaving.delete(name);
    for (const [name, row] of rows) {
      if (names.has(name)) continue;
      row.element.remove();
      rows.delete(name);
    }
    for (const node of pool.nodes) {
      if (!rows.has(node.otpNode)) rows.set(node.otpNode, makeRow(() => pool, statusOf, reload,
        () => granted[permissions.change]));
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
    setText(automaticWords, failover.enabled
      ? `Automatic failover: after ${failover.timeout} s without an answer; ${used} so far.`
      : "Automatic failover: off. Fail over a node that does not answer yourself.");
    reset.hidden = !failover.count || !granted[permissions.settings];
  }

  function showBalance(task, isRunning, reasons, retry) {
    const isPending = retry.retry_rebalance === "pending";
    cancelRetry.hidden = isRunning || !isPending || !granted[permissions.settings];
    pendingRetry = isPending ? retry.rebalance_id : null;
    const isNeeded = !pool.balanced || leaving.size > 0;
    add.disabled = isRunning;
    start.disabled = isRunning || !isNeeded;
    stop.hidden = !isRunning || !granted[permissions.change];
    meter.hidden = !isRunning;
    if (isRunning) {
      meter.show((task?.progress || 0) / 100);
      const bucket = task?.detailedProgress;
      setText(words, `${task?.subtype === "gracefulFailover" ? "Graceful failover" : "Rebalance"}: `
        + `${Math.round(task?.progress || 0)} % done`
        + (bucket?.bucket ? `, bucket ${bucket.bucket} (${bucket.bucketNumber} of ${bucket.bucketsCount})` : ""));
      setText(more, task?.waitingFor ? `Waiting: ${task.waitingFor}` : "");
      return;
    }
    const silent = pool.nodes.filter(node => isActive(node) && node.status === "unhealthy"
      && node.interestingStats.curr_items === undefined);
    setText(words, isNeeded ? "A rebalance is needed." : pool.lostRedundancy.length
      ? "Copies are missing." : silent.length
        ? `${counted(silent.length, "node does", "nodes do")} not answer, with the copies there.`
        : "Every copy is in its place.");
    const texts = whyUnbalanced();
    const kind = task?.subtype === "gracefulFailover" ? "graceful failover" : "rebalance";
    if (task?.errorMessage) texts.unshift(`The last ${kind} did not finish: ${task.errorMessage}`);
    if (isPending) texts.unshift(`The rebalance is retried in ${retry.retry_after_secs} s.`);
    if (reasons.length) texts.push(`Automatic failover is blocked: ${reasons.join(" ")}`);
    setText(more, texts.join(" "));
  }

  function whyUnbalanced() {
    const texts = [];
    const some = (nodes, one, many) =>
      nodes.length && texts.push(`${nodes.join(", ")} ${nodes.length === 1 ? one : many}.`);
    const host = node => node.hostname;
    some(pool.nodes.filter(node => node.clusterMembership === "inactiveAdded").map(host),
      "waits for a rebalance that adds it", "wait for a rebalance that adds them");
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
    await reload();
  }

  async function reload() {
    pool = await get("/pools/default");
    await refresh(pool);
  }
}

// A rebalance or removal discards data that only a failed-over node has; the user must confirm that.
function mayLose(pool) {
  const lost = (pool.bucketsNeedRebalance || []).find(({ code }) => code === "vbuckets_not_served");
  const isRecovering = pool.nodes.some(node => node.recoveryType === "delta");
  return !lost || isRecovering || confirm(`${lost.description} (${lost.buckets.join(", ")})\n\nContinue anyway?`);
}

async function attempt(act, done, reload) {
  try {
    await act();
    notice(done);
  } catch (error) {
    if (!error.errors) throw error;
    notice(error.message);
  }
  await reload();
}

// MARK: One node

function makeRow(pool, statusOf, reload, mayChange) {
  let node;
  const [dot, host] = [h("span", { class: "dot" }), h("span")];
  const [state, group, items, cpu, memory, uptime] = [h("td"), h("td", { class: "muted" }), h("td"),
    h("td"), h("td"), h("td")];
  const tags = h("div", { class: "tags" });
  const actions = h("td");
  const meter = bar("Memory of the machine");
  const text = h("div");
  fill(memory, h("div", {}, text, meter));
  const element = tableRow(headings, {}, h("td", {}, h("div", {}, h("div", { class: "named" }, dot, host), tags)),
    state, group,
    items, cpu, memory, uptime, actions);
  return { element, show };

  function show(current, isRunning, progress) {
    node = current;
    element.dataset.node = node.hostname;
    dot.className = `dot ${node.status}`;
    setText(host, node.hostname);
    host.title = `Fingerprint ${node.fingerprint}`;
    if (!tags.hasChildNodes() && node.thisNode) fill(tags, h("span", { class: "tag" }, "this node"));
    const share = progress === undefined ? "" : ` (${Math.round(progress)} % done)`;
    setText(state, (leaving.has(node.otpNode) ? "Leaves with the next rebalance" : stateOf(node)) + share);
    setText(group, node.serverGroup || "");
    const stats = node.interestingStats;
    const isReporting = stats.curr_items !== undefined;
    setText(items, isReporting
      ? `${count(stats.curr_items)}, ${counted(stats.vb_replica_curr_items, "replica")}` : "–");
    setText(cpu, isReporting ? `${Math.round(node.systemStats.cpu_utilization_rate)} %` : "–");
    setText(text, isReporting ? `${size(node.memoryTotal - node.memoryFree)} of ${size(node.memoryTotal)}` : "–");
    meter.hidden = !isReporting;
    if (isReporting) meter.show(1 - node.memoryFree / node.memoryTotal);
    setText(uptime, isReporting ? duration(Number(node.uptime)) : "–");
    showActions(isRunning);
  }

  // Replaces the buttons only if they differ, so that a button under the pointer stays.
  function showActions(isRunning) {
    const kind = [node.clusterMembership, node.recoveryType, leaving.has(node.otpNode), isRunning,
      pool().nodes.filter(isActive).length, mayChange()].join();
    if (actions.dataset.kind === kind) return;
    actions.dataset.kind = kind;
    fill(actions, ...(isRunning || !mayChange() ? [] : choices()).flatMap(button => [button, " "]));
  }

  function choices() {
    const button = (name, words, act, style = "") => h("button", { class: `small ${style}`,
      type: "button", "data-action": name, onclick: act }, words);
    const send = (controller, form, done) => () =>
      attempt(() => post(pool().controllers[controller].uri, { otpNode: node.otpNode, ...form }),
        done, reload);
    if (node.clusterMembership === "inactiveFailed") {
      return [
        button("delta", "Add back with its copies",
          send("setRecoveryType", { recoveryType: "delta" }, `A rebalance will add ${node.hostname} back`)),
        button("full", "Add back empty",
          send("setRecoveryType", { recoveryType: "full" }, `A rebalance will add ${node.hostname} back`)),
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
    return [button("fail-over", "Fail over", () => failoverDialog(pool(), node, statusOf(node), reload)),
      button("remove", "Remove", () => mark(true), "danger")];
  }

  async function mark(isLeaving) {
    if (isLeaving) leaving.add(node.otpNode);
    else leaving.delete(node.otpNode);
    await reload();
  }
}

// MARK: Adding

function addDialog(pool, reload) {
  const host = h("input", { autocomplete: "off", spellcheck: "false", placeholder: "10.0.0.2:8091" });
  const token = h("input", { autocomplete: "off", spellcheck: "false" });
  const fingerprint = h("input", { autocomplete: "off", spellcheck: "false" });
  const submit = h("button", { id: "node-submit", class: "primary", type: "submit" }, "Add");
  const form = h("form", { id: "node-form", novalidate: true },
    h("h2", {}, "Add a node"),
    h("p", { class: "muted" }, "The node joins at once and holds no data until the next rebalance."),
    field({ id: "node-host", name: "hostname", label: "Address", control: host,
      hint: "Host and admin port of a new node" }),
    h("details", {}, h("summary", {}, "The node is on another machine"),
      field({ id: "node-token", name: "password", label: "Token", control: token,
        hint: "The content of the file init-token in its data directory" }),
      field({ id: "node-fingerprint", name: "fingerprint", label: "Fingerprint, if you want it checked",
        control: fingerprint, hint: "On its machine, /nodes/self/peer of its admin port shows it" })),
    formError("node-error"),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), submit));
  const dialog = openDialog(h("dialog", { id: "node-dialog" }, form));
  host.focus();

  onSubmit(form, submit, () => post(pool.controllers.addNode.uri, { hostname: host.value, user: "",
    password: token.value, fingerprint: fingerprint.value, services: "kv" }), async () => {
    dialog.close();
    notice(`${host.value} was added; rebalance to use it`);
    await reload();
  });
}

// MARK: Failing over

function automaticDialog(settings, reload) {
  const enabled = h("input", { type: "checkbox", checked: settings.enabled });
  const timeout = h("input", { type: "number", min: 1, max: 3600, value: settings.timeout });
  const most = h("input", { type: "number", min: 1, max: 100, value: settings.maxCount });
  const submit = h("button", { id: "auto-failover-submit", class: "primary", type: "submit" }, "Save");
  const form = h("form", { id: "auto-failover-form", novalidate: true },
    h("h2", {}, "Automatic failover"),
    h("p", { class: "muted" }, "A node that a majority cannot reach is failed over if no durable write is "
      + "lost. Requires three voters."),
    field({ id: "auto-failover-enabled", name: "enabled", label: "Enable automatic failover", control: enabled }),
    field({ id: "auto-failover-timeout", name: "timeout", label: "Timeout in seconds", control: timeout }),
    field({ id: "auto-failover-most", name: "maxCount", control: most,
      label: "Maximum number of nodes until the count is reset" }),
    formError("auto-failover-error"),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), submit));
  const dialog = openDialog(h("dialog", { id: "auto-failover-dialog" }, form));
  onSubmit(form, submit, () => post("/settings/autoFailover", { enabled: enabled.checked, timeout: timeout.value,
    maxCount: most.value }), async () => {
    dialog.close();
    notice("Automatic failover was changed");
    await reload();
  });
}

function failoverDialog(pool, node, status, reload) {
  const isGraceful = status.gracefulFailoverPossible === true;
  const choice = (value, isChosen) => h("input", { type: "radio", name: "kind", value,
    id: `failover-${value}`, checked: isChosen, disabled: value === "graceful" && !isGraceful });
  const [graceful, hard] = [choice("graceful", isGraceful), choice("hard", !isGraceful)];
  const sure = h("input", { type: "checkbox" });
  const loss = h("div", {}, h("p", { class: "error" }, possibleLoss(node, status)),
    field({ id: "failover-sure", control: sure, label: "Fail over and accept this loss" }));
  const submit = h("button", { id: "failover-submit", class: "danger", type: "submit" }, "Fail over");
  const form = h("form", { id: "failover-form", novalidate: true },
    h("h2", {}, `Fail over ${node.hostname}`),
    h("div", { class: "field" }, h("label", { class: "check", for: graceful.id }, graceful,
      "Gracefully: replicas take over one vBucket after the other; nothing is lost"),
      !isGraceful && h("p", { class: "hint" }, status.status === "healthy"
        ? "Not possible: no other node has a copy of some of its vBuckets."
        : "Not possible: the node does not answer, or is not ready.")),
    h("div", { class: "field" }, h("label", { class: "check", for: hard.id }, hard,
      "At once: for a node that has failed")),
    loss, formError("failover-error"),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), submit));
  const dialog = openDialog(h("dialog", { id: "failover-dialog" }, form));
  form.addEventListener("change", update);
  update();

  function update() {
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
      update();
      return showErrors(form, error.errors);
    }
    dialog.close();
    notice(hard.checked ? `${node.hostname} was failed over` : "The graceful failover has begun");
    await reload();
  });
}

function possibleLoss(node, status) {
  const recent = "Recent changes that have not been replicated are lost.";
  if (status.dataless) return "The node holds no documents: nothing is lost.";
  if (!status.onlyCopy) return recent;
  return `${recent} No other reachable node has a copy of some of its vBuckets: they are not served until `
    + `${node.hostname} recovers, and their data is lost if it does not.`;
}
