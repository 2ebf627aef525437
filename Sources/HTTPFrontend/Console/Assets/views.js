// Views: list, write, try on a document, save for development, query, publish, errors.

import { get, post, bucketPath, checkPermissions } from "/ui/api.js";
import { conflictArea } from "/ui/conflict.js";
import { changeView, replaceDesign, Conflict } from "/ui/designs.js";
import { h, fill, notice, field, formError, showErrors, openDialog, columns, row as tableRow, table }
  from "/ui/dom.js";
import { failures, query, trial } from "/ui/viewtools.js";

const prefix = "dev_";
const template = `function (doc, meta) {
  emit(meta.id, null);
}`;

const headings = columns("View", "Design document", "Stage", "Reduce");

// Texts of views that were changed and not saved, by bucket, design document and view; with the view that
// the change is based on.
const drafts = new Map();

export const hasDrafts = () => drafts.size > 0;
export const discardDrafts = () => drafts.clear();

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
  // The changes that the user's roles permit.
  const may = { write: false, readDocuments: false };
  let described = null;

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
    if (!isShown) await begin();
    else await showFailures?.();
  }

  async function begin() {
    const [write, read] = [`cluster.bucket[${bucket}].views!write`, `cluster.bucket[${bucket}].data.docs!read`];
    const granted = await checkPermissions([write, read]);
    Object.assign(may, { write: granted[write], readDocuments: granted[read] });
    described = await describe();
    await load();
  }

  // The bucket's vBuckets and documents, on which the extent of a development view depends.
  async function describe() {
    const all = await get("/pools/default/buckets?skipMap=true");
    const found = all.find(({ name }) => name === bucket);
    return { vBuckets: found?.numVBuckets ?? 0, documents: found?.basicStats.itemCount ?? 0 };
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
    create.hidden = !may.write;
    designs = new Map(rows.map(({ doc }) => [doc.meta.id.slice("_design/".length), doc.json]));
    fill(list, designs.size ? viewTable() : h("div", { class: "empty" },
      "There are no views yet. A view lists documents by keys that its map function computes."));
    // The row of the open view is in sight, also in a long list.
    const [box, current] = [list.querySelector(".long"), list.querySelector("[aria-current]")];
    if (current) box.scrollTop = current.offsetTop - box.clientHeight / 2;
    const json = designs.get(designDocument);
    showFailures = null;
    if (json?.views && view in json.views) showEditor();
    else fill(editor);
    await showFailures?.();
  }

  function viewTable() {
    const rows = [...designs].flatMap(([name, json]) => Object.entries(json.views ?? {}).map(
      ([each, { reduce }]) => tableRow(headings, { "data-view": `${name}/${each}` },
        h("td", {}, h("a", { class: "mono", href: link(name, each),
          "aria-current": name === designDocument && each === view ? "true" : undefined }, each)),
        h("td", { class: "mono" }, name),
        h("td", {}, name.startsWith(prefix) ? "development" : "production"),
        h("td", { class: "mono preview" }, reduce ?? ""))));
    return h("div", { class: "long", tabindex: 0, role: "region", "aria-label": "Views" },
      table(headings, h("tbody", { id: "view-table" }, rows)));
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
        await changeView(bucket, target, each, { map: template }, undefined);
      } catch (problem) {
        if (problem instanceof Conflict) {
          return showErrors(form, { name: "The design document has a view of this name." });
        }
        if (!problem.errors) throw problem;
        return showErrors(form, problem.errors);
      }
      dialog.close();
      open(target, each);
    });
  }

  // MARK: One view

  function showEditor() {
    const isDevelopment = designDocument.startsWith(prefix);
    const isEditable = isDevelopment && may.write;
    const definition = designs.get(designDocument).views[view];
    const draftKey = [bucket, designDocument, view].map(encodeURIComponent).join("/");
    const draft = drafts.get(draftKey);
    let base = draft?.base ?? definition;
    const map = h("textarea", { class: "code", spellcheck: "false", readonly: !isEditable });
    const reduce = h("textarea", { class: "code short", spellcheck: "false", readonly: !isEditable,
      placeholder: "_count, _sum, _stats, or function (keys, values, rereduce) { … }" });
    const conflict = conflictArea("view-conflict");
    const unsaved = h("p", { id: "view-unsaved", class: "hint", hidden: true }, "These texts are not saved. ",
      h("button", { id: "view-discard", class: "small", type: "button", onclick: discard }, "Discard changes"));
    const form = h("form", { id: "view-editor-form", novalidate: true, oninput: keepDraft },
      h("h2", {}, `${designDocument} / ${view}`), unsaved,
      field({ id: "view-map", name: "map", label: "Map", control: map }),
      field({ id: "view-reduce", name: "reduce", label: "Reduce (optional)", control: reduce }),
      formError("view-editor-error"), conflict.element, h("div", { class: "buttons" }, buttons()));
    form.addEventListener("submit", saveView);
    setTexts(draft ?? { map: definition.map, reduce: definition.reduce ?? "" });
    keepDraft();
    const context = { bucket, designDocument, view, isDevelopment, described, describe };
    const errors = failures(context);
    showFailures = errors.refresh;
    fill(editor, h("div", { class: "two" }, h("section", { class: "card" }, form),
      may.write && may.readDocuments && trial(context, map)), errors.element, query(context));

    function buttons() {
      const remove = h("button", { id: "view-delete", class: "danger", type: "button", onclick: deleteView },
        "Delete");
      if (!may.write) return [];
      return isDevelopment
        ? [remove, h("button", { id: "view-publish", type: "button", onclick: publish }, "Publish"),
          h("button", { id: "view-save", class: "primary", type: "submit" }, "Save")]
        : [remove, h("button", { id: "view-copy", class: "primary", type: "button", onclick: copy }, "Edit a copy")];
    }

    function setTexts(texts) {
      map.value = texts.map;
      reduce.value = texts.reduce;
    }

    // Keeps the texts while they differ from the view.
    function keepDraft() {
      const isChanged = map.value !== base.map || reduce.value.trim() !== (base.reduce ?? "");
      unsaved.hidden = !isChanged;
      if (isChanged) drafts.set(draftKey, { map: map.value, reduce: reduce.value, base });
      else drafts.delete(draftKey);
    }

    function discard() {
      drafts.delete(draftKey);
      load();
    }

    async function saveView(event) {
      event.preventDefault();
      await attempt(form, async () => {
        const text = reduce.value.trim();
        const changed = { ...base, map: map.value, reduce: text || undefined };
        await changeView(bucket, designDocument, view, changed, base);
        drafts.delete(draftKey);
        showErrors(form, {});
        notice(`${view} was saved`);
        await load();
      }, showConflict);
    }

    function showConflict(present) {
      showErrors(form, {});
      base = present;
      keepDraft();
      const differences = [["Map", map.value, present?.map ?? "(deleted)"],
        ["Reduce", reduce.value.trim(), present ? present.reduce ?? "" : "(deleted)"]];
      conflict.show("Another client changed the view after it was opened. Nothing has been saved. "
        + "Saving now replaces the present version by yours.",
      differences.filter(([, mine, theirs]) => mine !== theirs), present && (() => {
        setTexts({ map: present.map, reduce: present.reduce ?? "" });
        keepDraft();
      }));
    }

    async function deleteView() {
      if (!confirm(`Delete the view ${view} of ${designDocument}?`)) return;
      await attempt(form, async () => {
        await changeView(bucket, designDocument, view, undefined, base);
        drafts.delete(draftKey);
        notice(`${view} was deleted`);
        location.hash = `#/views/${encodeURIComponent(bucket)}`;
      }, showConflict);
    }

    async function publish() {
      const target = designDocument.slice(prefix.length);
      const question = `Replace the production views of ${target}?`;
      if (designs.has(target) && !confirm(question)) return;
      await attempt(form, async () => {
        await replaceDesign(bucket, target, designs.get(designDocument), designs.get(target));
        notice(`${designDocument} was published as ${target}`);
        await load();
      }, () => {
        isShown = false;
        notice(`Another client changed ${target} meanwhile. Look at its views, then publish again.`);
      });
    }

    async function copy() {
      await attempt(form, async () => {
        const target = prefix + designDocument;
        if (!designs.get(target)?.views?.[view]) await changeView(bucket, target, view, definition, undefined);
        open(target, view);
      }, () => open(prefix + designDocument, view));
    }
  }

  async function attempt(form, act, differs) {
    try {
      await act();
    } catch (problem) {
      if (problem instanceof Conflict) return differs(problem.present);
      if (!problem.errors) throw problem;
      showErrors(form, problem.errors);
    }
  }
}
