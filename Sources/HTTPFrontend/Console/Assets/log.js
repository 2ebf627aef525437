// The recent events of the cluster, newest first.

import { poll } from "/ui/api.js";
import { h, fill } from "/ui/dom.js";

const dots = { info: "healthy", warning: "warmup", critical: "unhealthy" };

export function log() {
  const body = h("tbody", { id: "log-table" });
  const element = h("div", { id: "log" },
    h("div", { class: "head" }, h("h1", {}, "Log")),
    h("section", { class: "card scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Event", "Node", "When"].map(text =>
        h("th", { scope: "col" }, text)))), body)));
  let shown = "";
  return { element, refresh };

  async function refresh() {
    const { list } = await poll("/logs?limit=200");
    const key = `${list.length} ${list.at(-1)?.tstamp}`;
    if (key === shown) return;
    shown = key;
    fill(body, list.reverse().map(entry => h("tr", {},
      h("td", {}, h("div", { class: "named" },
        h("span", { class: `dot ${dots[entry.type]}`, role: "img", "aria-label": entry.type }),
        h("span", { class: "plain" }, entry.text))),
      h("td", { class: "muted" }, entry.node),
      h("td", { class: "muted" }, new Date(entry.tstamp).toLocaleString()))));
  }
}
