// The rows of a view, from a query or from a trial of its map function.

import { h, fill, counted } from "/ui/dom.js";

// Longer keys and values are shown in part.
const textSize = 300;

const text = value => {
  const json = JSON.stringify(value);
  return json.length > textSize ? `${json.slice(0, textSize)}…` : json;
};

// A place for rows and messages. `show` replaces both, `refuse` shows an error alone.
export function resultArea(id) {
  const body = h("tbody", { id: `${id}-rows` });
  const table = h("table", { hidden: true },
    h("thead", {}, h("tr", {}, ["Key", "Value", "Document"].map(name => h("th", { scope: "col" }, name)))),
    body);
  const summary = h("p", { id: `${id}-summary`, class: "muted", "aria-live": "polite" });
  const errors = h("ul", { id: `${id}-errors`, class: "error", role: "alert", hidden: true });
  const log = h("pre", { id: `${id}-log`, class: "mono", hidden: true });
  const element = h("div", { class: "result" }, summary, errors, log, h("div", { class: "scroll" }, table));

  return { element, show, refuse, clear };

  function show({ rows, errors: messages = [], log: lines = [], total, milliseconds }) {
    fill(body, rows.map(row => h("tr", {},
      h("td", { class: "mono" }, text(row.key)), h("td", { class: "mono" }, text(row.value)),
      h("td", { class: "mono" }, row.id ?? ""))));
    table.hidden = rows.length === 0;
    summary.textContent = [counted(rows.length, "row"),
      total !== undefined && `${counted(total, "row")} in the index`,
      milliseconds !== undefined && `${milliseconds} ms`].filter(Boolean).join(", ");
    fill(errors, messages.map(message => h("li", {}, message)));
    errors.hidden = messages.length === 0;
    log.textContent = lines.length ? `log:\n${lines.join("\n")}` : "";
    log.hidden = lines.length === 0;
  }

  function refuse(message) {
    show({ rows: [], errors: [message] });
    summary.textContent = "";
  }

  function clear() {
    show({ rows: [] });
    summary.textContent = "";
  }
}
