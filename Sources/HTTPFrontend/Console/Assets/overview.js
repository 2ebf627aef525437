// The cluster's overview: operations, documents, memory, disk, and the state of the nodes.

import { get } from "/ui/api.js";
import { h, fill, setText, bar, count, counted, size, duration, columns, row, table } from "/ui/dom.js";

const headings = columns("Node", "State", "Version", "CPU", "Memory", "Up for");

const words = { healthy: "Serves everything", warmup: "Warming up", unhealthy: "A bucket does not serve" };
const recoveries = { none: "Waits for a rebalance that adds it",
  full: "Is added back empty by the next rebalance",
  delta: "Is added back with its copies by the next rebalance" };

// A node's state in a few words.
export function stateOf(node) {
  const silence = node.status === "unhealthy" && !isReporting(node) ? "; does not answer" : "";
  if (node.clusterMembership === "inactiveFailed") return `Failed over: serves nothing${silence}`;
  if (node.clusterMembership === "inactiveAdded") return recoveries[node.recoveryType] + silence;
  if (isReporting(node)) return words[node.status] || node.status;
  return "Does not answer";
}

const isReporting = node => node.interestingStats.curr_items !== undefined;

export function overview() {
  const memory = tile("Memory for buckets");
  const disk = tile("Disk");
  const operations = tile("Operations a second");
  const items = tile("Documents");
  const body = h("tbody", { id: "node-table" });
  const rows = new Map();
  let shownUptime = Infinity;
  const version = h("span", { id: "divan-version", class: "muted" });
  const element = h("div", { id: "overview" },
    h("div", { class: "head" }, h("h1", {}, "Overview"), version),
    h("div", { class: "tiles" }, operations.element, items.element, memory.element, disk.element),
    h("section", { class: "card" }, table(headings, body)));

  return { element, refresh };

  // The version is that of the node that serves the page, which may be another one after its restart.
  async function showVersion(pool) {
    const uptime = Number(pool.nodes.find(node => node.thisNode)?.uptime ?? 0);
    if (version.textContent && uptime >= shownUptime) return;
    shownUptime = uptime;
    setText(version, `Divan ${(await get("/versions")).divanVersion}`);
  }

  async function refresh(pool) {
    const { ram, hdd } = pool.storageTotals;
    // Each bar measures the number above it against the first number below it.
    memory.show(size(ram.usedByData), `of ${size(ram.quotaUsed)} reserved for buckets; `
      + `${size(ram.quotaTotal)} for all nodes`, ram.quotaUsed ? ram.usedByData / ram.quotaUsed : 0);
    const used = hdd.total - hdd.free;
    disk.show(size(used), `of ${size(hdd.total)} used; ${size(hdd.usedByData)} by documents`,
      hdd.total ? used / hdd.total : 0);
    const sum = name => pool.nodes.reduce((all, node) => all + (node.interestingStats[name] || 0), 0);
    operations.show(count(sum("ops")), `including ${counted(sum("cmd_get"), "read")}`);
    items.show(count(sum("curr_items")), `in ${counted(pool.bucketNames.length, "bucket")}`);
    const names = new Set(pool.nodes.map(node => node.otpNode));
    for (const [name, row] of rows) {
      if (names.has(name)) continue;
      row.element.remove();
      rows.delete(name);
    }
    for (const node of pool.nodes) {
      if (!rows.has(node.otpNode)) rows.set(node.otpNode, makeRow(body));
      rows.get(node.otpNode).show(node);
    }
    await showVersion(pool);
  }
}

function tile(title) {
  const value = h("div", { class: "value" }, "–");
  const more = h("div", { class: "hint" });
  const meter = bar(title);
  const element = h("div", { class: "card tile" }, h("div", { class: "muted" }, title), value, more);
  return { element, show };

  function show(text, detail, share) {
    setText(value, text);
    setText(more, detail);
    if (share === undefined) return;
    if (!meter.isConnected) element.append(meter);
    meter.show(share);
  }
}

function makeRow(body) {
  const [dot, host] = [h("span", { class: "dot" }), h("span")];
  const [state, version, cpu, memory, uptime] = [h("td"), h("td", { class: "muted" }), h("td"),
    h("td"), h("td")];
  const meter = bar("Memory of the machine");
  const text = h("div");
  fill(memory, h("div", {}, text, meter));
  const element = row(headings, {}, h("td", {}, h("div", { class: "named" }, dot, host)), state, version,
    cpu, memory, uptime);
  body.append(element);
  return { element, show };

  function show(node) {
    dot.className = `dot ${node.status}`;
    setText(host, node.hostname);
    setText(state, stateOf(node));
    setText(version, node.version);
    const isKnown = isReporting(node);
    setText(cpu, isKnown
      ? `${Math.round(node.systemStats.cpu_utilization_rate)} % of ${counted(node.cpuCount, "core")}` : "–");
    setText(text, isKnown ? `${size(node.memoryTotal - node.memoryFree)} of ${size(node.memoryTotal)}` : "–");
    meter.hidden = !isKnown;
    if (isKnown) meter.show(1 - node.memoryFree / node.memoryTotal);
    setText(uptime, isKnown ? duration(Number(node.uptime)) : "–");
  }
}
