// The recent events of the cluster, newest first.

import { poll } from "/ui/api.js";
import { h, fill, columns, row, table } from "/ui/dom.js";

const headings = columns("When", "Node", "Event");
const dots = { info: "healthy", warning: "warmup", critical: "unhealthy" };

export function log() {
  const body = h("tbody", { id: "log-table" });
  const element = h("div", { id: "log" },
    h("div", { class: "head" }, h("h1", {}, "Log")),
    h("section", { class: "card" }, table(headings, body, "log")));
  let shown = "";
  return { element, refresh };

  async function refresh() {
    const { list } = await poll("/logs?limit=200");
    const key = `${list.length} ${list.at(-1)?.tstamp}`;
    if (key === shown) return;
    shown = key;
    // Each event is one line; a click shows a long text in full.
    fill(body, list.reverse().map(entry => row(headings, {},
      h("td", { class: "muted whole" }, timeOf(entry.tstamp)),
      h("td", { class: "muted whole" }, entry.node),
      h("td", {}, h("div", { class: "event", tabindex: -1 },
        h("span", { class: `dot ${dots[entry.type]}`, role: "img", "aria-label": entry.type }), " ",
        entry.text)))));
  }
}

const timeOf = milliseconds => {
  const local = new Date(milliseconds - new Date(milliseconds).getTimezoneOffset() * 60000);
  return local.toISOString().slice(0, 19).replace("T", " ");
};
