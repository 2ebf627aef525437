// The rows of a view, from a query or from a trial of its map function. Keys, values and documents are JSON
// texts, so that numbers stay as they are.

import { h, fill, counted, columns, row as tableRow, table } from "/ui/dom.js";

// Longer texts are shown in part.
const textSize = 300;

const shorten = json => json.length > textSize ? `${json.slice(0, textSize)}…` : json;

const headings = columns("Key", "Value", "Document");
const headingsWithContent = columns("Key", "Value", "Document", "Content");

// A place for rows and messages. `show` replaces both, `refuse` shows an error alone.
export function resultArea(id) {
  const place = h("div");
  const summary = h("p", { id: `${id}-summary`, class: "muted", "aria-live": "polite" });
  const errors = h("div", { class: "error", role: "alert", hidden: true });
  const list = h("ul", { id: `${id}-errors` });
  errors.append(list);
  const log = h("pre", { id: `${id}-log`, class: "mono", tabindex: 0, hidden: true });
  const element = h("div", { class: "result" }, summary, errors, log, place);

  return { element, show, refuse, clear };

  // A row has `key`, `value` and `id`, and `content` if documents were asked for.
  function show({ rows, errors: messages = [], log: lines = [], total, milliseconds, extent }) {
    const hasContent = rows.some(row => row.content !== undefined);
    const shown = hasContent ? headingsWithContent : headings;
    const body = h("tbody", { id: `${id}-rows` }, rows.map(({ key, value, id: name, content }) => tableRow(shown, {},
      ...[shorten(key), shorten(value), name ?? "", ...(hasContent ? [shorten(content ?? "")] : [])]
        .map(text => h("td", { class: "mono" }, text)))));
    fill(place, rows.length ? table(shown, body) : []);
    summary.textContent = [counted(rows.length, "row"), extent,
      total !== undefined && `${counted(total, "row")} in the index`,
      milliseconds !== undefined && `${milliseconds} ms`].filter(Boolean).join(", ");
    fill(list, messages.map(message => h("li", {}, message)));
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
