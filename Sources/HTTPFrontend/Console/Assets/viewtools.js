// The tools under the editor of a view: a trial of its map function, its errors, and a query.

import { get, getText, post, bucketPath, designPath, documentPath, Refused } from "/ui/api.js";
import { h, fill, count, counted, field, formError, showErrors, columns, row as tableRow, table } from "/ui/dom.js";
import { elements, indent, members } from "/ui/json.js";
import { resultArea } from "/ui/viewresult.js";

const located = ({ line, reason }) => line ? `Line ${line}: ${reason}` : reason;

// A query of a development view is answered from one vBucket if the bucket has more documents for each.
const documentsOfVBucketMax = 20;

const failureHeadings = columns("Document", "Line", "Error");

// MARK: Try

// A document, and the rows that the map function in the editor emits for it.
export function trial({ bucket }, map) {
  const id = h("input", { autocomplete: "off", spellcheck: "false" });
  const shown = h("pre", { id: "trial-document", class: "mono document", tabindex: 0 });
  const result = resultArea("trial");
  const form = h("form", { id: "trial-form", novalidate: true }, h("h2", {}, "Try on a document"),
    field({ id: "trial-id", name: "id", label: "Document", control: id }), shown,
    formError("trial-error"),
    h("div", { class: "buttons" },
      h("button", { id: "trial-random", type: "button", onclick: random }, "Another document"),
      h("button", { id: "trial-run", class: "primary", type: "submit" }, "Try")), result.element);
  form.addEventListener("submit", async event => {
    event.preventDefault();
    try {
      await showDocument();
      const { rows, log, error } = await post(`${bucketPath(bucket)}/controller/tryMap`,
        { map: map.value, id: id.value });
      showErrors(form, {});
      result.show({ log, errors: error ? [located(error)] : [], rows: rows.map(({ key, value, id: name }) =>
        ({ key: JSON.stringify(key), value: JSON.stringify(value), id: name })) });
    } catch (problem) {
      if (!problem.errors) throw problem;
      showErrors(form, problem.errors);
    }
  });
  random();
  return h("section", { class: "card" }, form);

  async function random() {
    const before = id.value;
    try {
      const { key } = await get(`${bucketPath(bucket)}/localRandomKey`);
      // An id that was typed meanwhile stays.
      if (id.value !== before) return;
      id.value = key ?? "";
      result.clear();
      await showDocument();
    } catch (problem) {
      if (!problem.errors) throw problem;
      shown.textContent = problem.status === 404 ? "The bucket has no documents." : problem.message;
    }
  }

  async function showDocument() {
    if (!id.value) throw new Refused(400, { id: "The id of a document is required." });
    const found = await get(documentPath(bucket, { id: id.value })).catch(problem => {
      if (problem.status === 404) throw new Refused(404, { id: "There is no document with this id." });
      throw problem;
    });
    const content = "json" in found ? indent(found.json) : `${found.base64} (base 64)`;
    shown.textContent = `${content}\n\nmeta: `
      + JSON.stringify(found.meta);
  }
}

// MARK: Errors

// The documents that the saved function failed for, as this node has counted them; hidden if none.
export function failures({ bucket, designDocument, view }) {
  const kinds = { threw: "threw", timedOut: "took too long", memory: "ended their process",
    keyTooLong: "emitted a key that is too long", emittedTooMuch: "emitted too much",
    reductionTooLong: "have a reduction that is too long", notJSON: "emitted what nests too deep",
    invalidReply: "disturbed their process" };
  const summary = h("p", { id: "failure-summary" });
  const fault = h("p", { id: "failure-fault", class: "error", role: "alert" });
  const body = h("tbody", { id: "failure-rows" });
  const element = h("section", { id: "failures", class: "card", hidden: true },
    h("h2", {}, "Documents without rows"), fault, summary,
    table(failureHeadings, body));
  const path = `${bucketPath(bucket)}/ddocs/${encodeURIComponent(`_design/${designDocument}`)}/errors`;
  let shown = "";
  return { element, refresh };

  async function refresh() {
    let answer;
    try {
      answer = await get(path);
    } catch (problem) {
      if (!problem.errors) throw problem;
      return;
    }
    const found = answer.views[view] ?? { total: 0, counts: {}, last: [] };
    // Unchanged rows stay, and with them the user's selection.
    if (JSON.stringify(found) === shown) return;
    shown = JSON.stringify(found);
    element.hidden = found.total === 0 && !found.fault;
    fault.textContent = found.fault ?? "";
    const causes = Object.entries(found.counts).map(([kind, number]) => `${number} ${kinds[kind] ?? kind}`);
    summary.textContent = `On node ${answer.node}, since it opened the index, `
      + `${counted(found.total, "call")} failed: ${causes.join(", ")}. The last ones:`;
    summary.hidden = found.total === 0;
    fill(body, found.last.map(({ id, line, text }) => tableRow(failureHeadings, {},
      h("td", { class: "mono" }, id), h("td", {}, line || ""), h("td", {}, text))));
  }
}

// MARK: Query

export function query({ bucket, designDocument, view, isDevelopment, described, describe }) {
  const inputs = {
    startkey: ["Start key", "JSON"], endkey: ["End key", "JSON"], key: ["Key", "JSON"],
    keys: ["Keys", "JSON array"], limit: ["Limit", "10"], skip: ["Skip", "0"],
    group_level: ["Group level", ""],
  };
  const controls = {};
  for (const [name, [, placeholder]] of Object.entries(inputs)) {
    controls[name] = h("input", { autocomplete: "off", spellcheck: "false", placeholder });
  }
  const flags = Object.fromEntries(["descending", "reduce", "group", "include_docs", "full_set"].map(name =>
    [name, h("input", { type: "checkbox" })]));
  flags.reduce.checked = true;
  const stale = h("select", {}, ["false", "update_after", "ok"].map(value => h("option", { value }, value)));
  const part = `one of ${count(described.vBuckets)} vBuckets`;
  const partialFrom = documentsOfVBucketMax * described.vBuckets;
  const extentHint = described.documents > partialFrom
    ? `Without it, the rows are those of the documents of ${part} only.`
    : `Without it, the rows are those of the documents of ${part} only, once the bucket has more than `
      + `${count(partialFrom)} documents.`;
  const result = resultArea("query");
  const path = h("p", { id: "query-path", class: "mono muted" });
  const form = h("form", { id: "query-form", novalidate: true }, h("h2", {}, "Query"),
    h("div", { class: "fields" }, Object.entries(controls).map(([name, control]) =>
      field({ id: `query-${name}`, name, label: inputs[name][0], control })),
    field({ id: "query-stale", name: "stale", label: "Stale", control: stale }),
    Object.entries(flags).map(([name, control]) =>
      field({ id: `query-${name}`, name, label: name, control,
        hint: name === "full_set" && isDevelopment ? extentHint : null }))),
    formError("query-error"),
    h("div", { class: "buttons" },
      h("button", { id: "query-run", class: "primary", type: "submit" }, "Run")), path, result.element);
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const target = `${designPath(bucket, designDocument)}/_view/${encodeURIComponent(view)}?${parameters()}`;
    path.textContent = target;
    const began = performance.now();
    try {
      const isPartial = isDevelopment && !flags.full_set.checked && (await describe()).documents > partialFrom;
      const answer = members(await getText(target));
      const errors = JSON.parse(answer.errors ?? "[]").map(({ from, reason }) => `${from}: ${reason}`);
      result.show({ rows: elements(answer.rows).map(parsed), errors,
        total: answer.total_rows && JSON.parse(answer.total_rows),
        milliseconds: Math.round(performance.now() - began),
        extent: isPartial && `from the documents of ${part}` });
    } catch (problem) {
      if (!problem.errors) throw problem;
      result.refuse(problem.message);
    }
  });
  return h("section", { class: "card" }, form);

  function parameters() {
    const fields = new URLSearchParams({ stale: stale.value });
    for (const [name, { value }] of Object.entries(controls)) {
      if (value.trim()) fields.set(name, value.trim());
    }
    if (!fields.has("limit")) fields.set("limit", "10");
    for (const name of ["descending", "group", "include_docs", "full_set"]) {
      if (flags[name].checked) fields.set(name, "true");
    }
    if (!flags.reduce.checked) fields.set("reduce", "false");
    return fields;
  }
}

// A row of an answer, whose key, value and document stay as they are written.
function parsed(text) {
  const { key, value, id, doc } = members(text);
  const row = { key, value, id: id && JSON.parse(id) };
  if (doc === undefined) return row;
  if (doc === "null") return { ...row, content: "(no document)" };
  const { json, base64 } = members(doc);
  return { ...row, content: json ?? (base64 ? `${JSON.parse(base64)} (base 64)` : doc) };
}
