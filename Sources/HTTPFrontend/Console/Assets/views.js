// Views: list, write, try on a document, save for development, query, publish, errors.

import { get, post, put, remove, bucketPath, designPath, documentPath, Refused } from "/ui/api.js";
import { h, fill, counted, notice, field, formError, showErrors, openDialog } from "/ui/dom.js";
import { resultArea } from "/ui/viewresult.js";

const prefix = "dev_";
const template = `function (doc, meta) {
  emit(meta.id, null);
}`;

const located = ({ line, reason }) => line ? `Line ${line}: ${reason}` : reason;

export function views([bucket, designDocument, view]) {
  const choice = h("select", { id: "views-bucket", "aria-label": "Bucket",
    onchange: () => { location.hash = `#/views/${encodeURIComponent(choice.value)}`; } });
  const list = h("div", { id: "view-list" });
  const error = h("p", { class: "error", role: "alert" });
  const editor = h("div", { id: "view-editor" });
  const create = h("button", { id: "view-create-button", class: "primary", type: "button",
    onclick: createView }, "Create View");
  const element = h("div", { id: "views" },
    h("div", { class: "head" }, h("h1", {}, "Views"),
      h("div", { class: "inline" }, h("label", { for: "views-bucket" }, "Bucket"), choice, create)),
    error, h("section", { class: "card" }, list), editor);
  create.hidden = true;
  let names = null;
  let designs = new Map();
  let isShown = false;
  let showFailures = null;

  return { element, refresh };

  async function refresh(pool) {
    const current = pool.bucketNames.map(each => each.bucketName).sort();
    if (names === null || names.join("/") !== current.join("/")) {
      names = current;
      fill(choice, names.map(name => h("option", { value: name, selected: name === bucket }, name)));
    }
    if (names.length === 0) {
      fill(list, h("div", { class: "empty" }, "There are no buckets yet, and so no views."));
      return;
    }
    if (!names.includes(bucket)) {
      location.replace(`#/views/${encodeURIComponent(names[0])}`);
      return;
    }
    if (!isShown) await load();
    else await showFailures?.();
  }

  // MARK: The list

  async function load() {
    let rows;
    try {
      rows = (await get(`${bucketPath(bucket)}/ddocs`)).rows;
    } catch (problem) {
      if (!problem.errors) throw problem;
      error.textContent = problem.errors.error === "no_ddocs_service"
        ? "No node of this cluster serves views." : problem.message;
      return;
    }
    isShown = true;
    error.textContent = "";
    create.hidden = false;
    designs = new Map(rows.map(({ doc }) => [doc.meta.id.slice("_design/".length), doc.json]));
    fill(list, designs.size ? table() : h("div", { class: "empty" },
      "There are no views yet. A view lists documents by keys that its map function computes."));
    const json = designs.get(designDocument);
    showFailures = null;
    if (json?.views && view in json.views) showEditor();
    else fill(editor);
    await showFailures?.();
  }

  function table() {
    const rows = [...designs].flatMap(([name, json]) => Object.entries(json.views ?? {}).map(
      ([each, { reduce }]) => h("tr", { "data-view": `${name}/${each}` },
        h("td", {}, h("a", { class: "mono", href: link(name, each),
          "aria-current": name === designDocument && each === view ? "true" : undefined }, each)),
        h("td", { class: "mono" }, name),
        h("td", {}, name.startsWith(prefix) ? "development" : "production"),
        h("td", { class: "mono preview" }, reduce ?? ""))));
    return h("table", {}, h("thead", {}, h("tr", {},
      ["View", "Design document", "Stage", "Reduce"].map(text => h("th", { scope: "col" }, text)))),
    h("tbody", { id: "view-table" }, rows));
  }

  function link(name, each) {
    return `#/views/${[bucket, name, each].map(encodeURIComponent).join("/")}`;
  }

  function open(name, each) {
    const target = link(name, each);
    if (location.hash === target) return load();
    location.hash = target;
  }

  function createView() {
    const design = h("input", { autocomplete: "off", spellcheck: "false" });
    const name = h("input", { autocomplete: "off", spellcheck: "false" });
    const form = h("form", { id: "view-form", novalidate: true }, h("h2", {}, "Create View"),
      field({ id: "view-design", name: "design", label: "Design document", control: design,
        hint: "Begins with dev_ until it is published; the prefix is added" }),
      field({ id: "view-name", name: "name", label: "View", control: name }),
      formError("view-error"),
      h("div", { class: "buttons" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        h("button", { id: "view-create", class: "primary", type: "submit" }, "Create")));
    const dialog = openDialog(h("dialog", { id: "view-dialog" }, form));
    design.focus();
    form.addEventListener("submit", async event => {
      event.preventDefault();
      const target = prefix + design.value.trim().replace(/^dev_/, "");
      const each = name.value.trim();
      if (target === prefix) return showErrors(form, { design: "A design document needs a name." });
      if (!each) return showErrors(form, { name: "A view needs a name." });
      if (designs.get(target)?.views?.[each]) {
        return showErrors(form, { name: "The design document has a view of this name." });
      }
      try {
        await save(target, each, { map: template });
      } catch (problem) {
        if (!problem.errors) throw problem;
        return showErrors(form, problem.errors);
      }
      dialog.close();
      open(target, each);
    });
  }

  // Sets one view of a design document; the other views and members stay as they are.
  async function save(name, each, definition) {
    const json = structuredClone(designs.get(name) ?? {});
    json.views = { ...json.views, [each]: definition };
    await put(designPath(bucket, name), json);
    designs.set(name, json);
  }

  // MARK: One view

  function showEditor() {
    const isDevelopment = designDocument.startsWith(prefix);
    const definition = designs.get(designDocument).views[view];
    const map = h("textarea", { class: "code", spellcheck: "false", readonly: !isDevelopment });
    map.value = definition.map;
    const reduce = h("textarea", { class: "code short", spellcheck: "false", readonly: !isDevelopment,
      placeholder: "_count, _sum, _stats, or function (keys, values, rereduce) { … }" });
    reduce.value = definition.reduce ?? "";
    const buttons = isDevelopment
      ? [h("button", { id: "view-delete", class: "danger", type: "button", onclick: deleteView }, "Delete"),
        h("button", { id: "view-publish", type: "button", onclick: publish }, "Publish"),
        h("button", { id: "view-save", class: "primary", type: "submit" }, "Save")]
      : [h("button", { id: "view-delete", class: "danger", type: "button", onclick: deleteView }, "Delete"),
        h("button", { id: "view-copy", class: "primary", type: "button", onclick: copy }, "Edit a copy")];
    const form = h("form", { id: "view-editor-form", novalidate: true },
      h("h2", {}, `${designDocument} / ${view}`),
      field({ id: "view-map", name: "map", label: "Map", control: map }),
      field({ id: "view-reduce", name: "reduce", label: "Reduce (optional)", control: reduce }),
      formError("view-editor-error"), h("div", { class: "buttons" }, buttons));
    form.addEventListener("submit", async event => {
      event.preventDefault();
      await attempt(form, async () => {
        const text = reduce.value.trim();
        await save(designDocument, view, { ...definition, map: map.value, reduce: text || undefined });
        showErrors(form, {});
        notice(`${view} was saved`);
        await load();
      });
    });
    fill(editor, h("div", { class: "two" },
      h("section", { class: "card" }, form), trial(map)), failures(), query());

    async function deleteView() {
      if (!confirm(`Delete the view ${view} of ${designDocument}?`)) return;
      await attempt(form, async () => {
        const json = structuredClone(designs.get(designDocument));
        delete json.views[view];
        if (Object.keys(json.views).length) await put(designPath(bucket, designDocument), json);
        else await remove(designPath(bucket, designDocument));
        notice(`${view} was deleted`);
        location.hash = `#/views/${encodeURIComponent(bucket)}`;
      });
    }

    async function publish() {
      const target = designDocument.slice(prefix.length);
      const question = `Replace the production views of ${target}?`;
      if (designs.has(target) && !confirm(question)) return;
      await attempt(form, async () => {
        await put(designPath(bucket, target), designs.get(designDocument));
        notice(`${designDocument} was published as ${target}`);
        await load();
      });
    }

    async function copy() {
      await attempt(form, async () => {
        const target = prefix + designDocument;
        if (!designs.get(target)?.views?.[view]) await save(target, view, definition);
        open(target, view);
      });
    }
  }

  async function attempt(form, act) {
    try {
      await act();
    } catch (problem) {
      if (!problem.errors) throw problem;
      showErrors(form, problem.errors);
    }
  }

  // MARK: Try

  // A document, and the rows that the map function in the editor emits for it.
  function trial(map) {
    const id = h("input", { autocomplete: "off", spellcheck: "false" });
    const shown = h("pre", { id: "trial-document", class: "mono document" });
    const result = resultArea("trial");
    const form = h("form", { id: "trial-form", novalidate: true }, h("h2", {}, "Try on a document"),
      field({ id: "trial-id", name: "id", label: "Document", control: id }), shown,
      formError("trial-error"),
      h("div", { class: "buttons" },
        h("button", { id: "trial-random", type: "button", onclick: random }, "Another document"),
        h("button", { id: "trial-run", class: "primary", type: "submit" }, "Try")), result.element);
    form.addEventListener("submit", async event => {
      event.preventDefault();
      await attempt(form, async () => {
        await showDocument();
        const { rows, log, error } = await post(`${bucketPath(bucket)}/controller/tryMap`,
          { map: map.value, id: id.value });
        showErrors(form, {});
        result.show({ rows, log, errors: error ? [located(error)] : [] });
      });
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
      shown.textContent = `${found.json ?? `${found.base64} (base 64)`}\n\nmeta: `
        + JSON.stringify(found.meta);
    }
  }

  // MARK: Errors

  // The documents that the saved function failed for, as this node has counted them; hidden if none.
  function failures() {
    const kinds = { threw: "threw", timedOut: "took too long", memory: "ended their process",
      keyTooLong: "emitted a key that is too long", emittedTooMuch: "emitted too much",
      reductionTooLong: "have a reduction that is too long", notJSON: "emitted what nests too deep",
      invalidReply: "disturbed their process" };
    const summary = h("p", { id: "failure-summary" });
    const fault = h("p", { id: "failure-fault", class: "error", role: "alert" });
    const body = h("tbody", { id: "failure-rows" });
    const element = h("section", { id: "failures", class: "card", hidden: true },
      h("h2", {}, "Documents without rows"), fault, summary,
      h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {},
        ["Document", "Line", "Error"].map(text => h("th", { scope: "col" }, text)))), body)));
    const path = `${bucketPath(bucket)}/ddocs/${encodeURIComponent(`_design/${designDocument}`)}/errors`;
    let shown = "";
    showFailures = async () => {
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
      fill(body, found.last.map(({ id, line, text }) => h("tr", {},
        h("td", { class: "mono" }, id), h("td", {}, line || ""), h("td", {}, text))));
    };
    return element;
  }

  // MARK: Query

  function query() {
    const inputs = {
      startkey: ["Start key", "JSON"], endkey: ["End key", "JSON"], key: ["Key", "JSON"],
      keys: ["Keys", "JSON array"], limit: ["Limit", "10"], skip: ["Skip", "0"],
      group_level: ["Group level", ""],
    };
    const controls = Object.fromEntries(Object.entries(inputs).map(([name, [, placeholder]]) =>
      [name, h("input", { autocomplete: "off", spellcheck: "false", placeholder })]));
    const flags = Object.fromEntries(["descending", "reduce", "group", "include_docs", "full_set"].map(name =>
      [name, h("input", { type: "checkbox" })]));
    flags.reduce.checked = true;
    const stale = h("select", {}, ["false", "update_after", "ok"].map(value => h("option", { value }, value)));
    const result = resultArea("query");
    const path = h("p", { id: "query-path", class: "mono muted" });
    const form = h("form", { id: "query-form", novalidate: true }, h("h2", {}, "Query"),
      h("div", { class: "fields" }, Object.entries(controls).map(([name, control]) =>
        field({ id: `query-${name}`, name, label: inputs[name][0], control })),
      field({ id: "query-stale", name: "stale", label: "Stale", control: stale }),
      Object.entries(flags).map(([name, control]) =>
        field({ id: `query-${name}`, name, label: name, control }))),
      formError("query-error"),
      h("div", { class: "buttons" },
        h("button", { id: "query-run", class: "primary", type: "submit" }, "Run")), path, result.element);
    form.addEventListener("submit", async event => {
      event.preventDefault();
      const target = `${designPath(bucket, designDocument)}/_view/${encodeURIComponent(view)}?${parameters()}`;
      path.textContent = target;
      const began = performance.now();
      try {
        const answer = await get(target);
        const errors = (answer.errors ?? []).map(({ from, reason }) => `${from}: ${reason}`);
        result.show({ rows: answer.rows, errors, total: answer.total_rows,
          milliseconds: Math.round(performance.now() - began) });
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
}
