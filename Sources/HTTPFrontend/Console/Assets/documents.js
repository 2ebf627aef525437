// Documents: list in pages, look up by id, create, edit, delete.

import { get, post, remove, bucketPath, documentPath } from "/ui/api.js";
import { followChanges } from "/ui/changes.js";
import { h, fill, notice, field, formError, showErrors, openDialog } from "/ui/dom.js";

const pageSize = 20;
const previewSize = 200;
// Bytes of documents that a page reads for its previews; further rows have ids only.
const pageBytes = 16 << 20;
// How long a new or changed document is lit up, and the least pause between two reloads of a page.
const litMilliseconds = 4000;
const reloadMilliseconds = 1000;

// A document's displayed name; a key that is not UTF-8 is shown percent-encoded.
const title = name => name.id ?? `${name.encodedId} (key is not UTF-8)`;

// The query of the page that begins with a row.
const startOf = row => row.encodedId === undefined
  ? `startkey=${encodeURIComponent(JSON.stringify(row.id))}` : `startkey_docid=${row.encodedId}`;

export function documents([bucket]) {
  const choice = h("select", { id: "documents-bucket", "aria-label": "Bucket",
    onchange: () => { location.hash = `#/documents/${encodeURIComponent(choice.value)}`; } });
  const search = h("input", { id: "document-search", name: "lookup", autocomplete: "off",
    spellcheck: "false" });
  const body = h("tbody", { id: "document-table" });
  const empty = h("div", { class: "empty", hidden: true });
  const [range, error] = [h("span", { class: "muted" }), h("p", { class: "error", role: "alert" })];
  const before = h("button", { id: "documents-before", type: "button", onclick: back }, "Previous");
  const after = h("button", { id: "documents-after", type: "button", onclick: on }, "Next");
  const starts = [null];
  let next = null;
  let wanted = "";
  let lastRequest = 0;
  let isLoading = false;
  // When the light of a changed document ends, by its title.
  const lit = new Map();
  let isFollowing = false;
  let isReloadDue = false;

  const form = h("form", { class: "inline", onsubmit: lookUp },
    h("label", { for: "document-search" }, "Look up"), search,
    h("button", { id: "document-search-button", type: "submit" }, "Look up"),
    h("button", { id: "document-search-clear", class: "quiet", type: "button",
      onclick: clear }, "Show all"));
  search.placeholder = "document id";
  const tools = h("div", { class: "head" }, form,
    h("button", { id: "document-create-button", class: "primary", type: "button",
      onclick: () => edit(null) }, "Create Document"));
  const list = h("section", { class: "card scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Id"), h("th", { scope: "col" }, "Content"),
      h("th", {}, h("span", { class: "skip" }, "Actions")))), body), empty);
  const paging = h("div", { class: "buttons" }, range, before, after);
  const element = h("div", { id: "documents" },
    h("div", { class: "head" }, h("h1", {}, "Documents"),
      h("div", { class: "inline" }, h("label", { for: "documents-bucket" }, "Bucket"), choice)),
    tools, error, list, paging);
  for (const part of [tools, list, paging]) part.hidden = true;

  let names = null;
  return { element, refresh };

  async function refresh(pool) {
    const current = pool.bucketNames.map(each => each.bucketName).sort();
    if (names !== null && names.join("/") === current.join("/")) {
      // Retry a page that could not be read.
      if (error.textContent && !isLoading) await load();
      return;
    }
    names = current;
    fill(choice, names.map(name => h("option", { value: name, selected: name === bucket }, name)));
    if (names.length === 0) {
      list.hidden = false;
      showEmpty("There are no buckets yet, and so no documents.");
      return;
    }
    if (!names.includes(bucket)) {
      location.replace(`#/documents/${encodeURIComponent(names[0])}`);
      return;
    }
    if (!list.hidden) return;
    for (const part of [tools, list, paging]) part.hidden = false;
    await load();
    if (isFollowing) return;
    isFollowing = true;
    followChanges(bucket, () => element.isConnected, lightUp);
  }

  // MARK: Changes

  function lightUp(changes) {
    const now = Date.now();
    for (const [name, end] of lit) if (end < now) lit.delete(name);
    for (const each of changes) lit.set(title(each), now + litMilliseconds);
    for (const row of body.rows) markRow(row);
    if (isReloadDue) return;
    isReloadDue = true;
    setTimeout(() => {
      isReloadDue = false;
      // The rows that a user works with stay.
      const isInUse = body.contains(document.activeElement) || document.querySelector("dialog[open]");
      if (element.isConnected && !isInUse && !isLoading) load();
    }, reloadMilliseconds);
  }

  function markRow(row) {
    if ((lit.get(row.dataset.title) ?? 0) > Date.now()) row.classList.add("lit");
  }

  // MARK: The list

  // Only the reply to the last request is shown, even if an earlier reply arrives later.
  async function load() {
    const request = lastRequest += 1;
    isLoading = true;
    try {
      const show = wanted ? await loadOne(wanted) : await loadPage();
      if (request !== lastRequest) return;
      error.textContent = "";
      show();
    } catch (problem) {
      if (!problem.errors) throw problem;
      if (request === lastRequest) error.textContent = problem.message;
    } finally {
      if (request === lastRequest) isLoading = false;
    }
  }

  async function loadPage() {
    const from = starts[starts.length - 1];
    // The row after the shown ones is the start of the next page.
    const query = `include_docs=true&docs_bytes=${pageBytes}&limit=${pageSize + 1}${from === null ? "" : `&${from}`}`;
    const { rows } = await get(`${bucketPath(bucket)}/docs?${query}`);
    return () => {
      next = rows.length > pageSize ? startOf(rows[pageSize]) : null;
      const shown = rows.slice(0, pageSize);
      fill(body, shown.map(row => documentRow(row, contentOf(row.doc), whyAbsent(row))));
      const first = (starts.length - 1) * pageSize + 1;
      range.textContent = shown.length < 2
        ? shown.length && first || "" : `${first} to ${first + shown.length - 1}`;
      before.disabled = starts.length === 1;
      after.disabled = next === null;
      showEmpty(shown.length ? "" : "There are no documents here.");
    };
  }

  async function loadOne(id) {
    const found = await read({ id });
    return () => {
      fill(body, found ? documentRow({ id }, found.json ?? `${found.base64} (base 64)`) : []);
      range.textContent = "";
      before.disabled = after.disabled = true;
      showEmpty(found ? "" : `There is no document with the id ${id}.`);
    };
  }

  function showEmpty(text) {
    empty.hidden = !text;
    empty.textContent = text;
  }

  function contentOf(doc) {
    if (!doc) return "";
    return "json" in doc ? JSON.stringify(doc.json) : `${doc.base64} (base 64)`;
  }

  // Why a row has no content, so that a document that is not shown does not look deleted.
  function whyAbsent({ doc, error, reason }) {
    if (error === "not_included") return "Not shown: the page is large. Edit opens the document.";
    return error ? `Not shown: ${reason.replace(/\.$/, "")}.` : doc ? "" : "Deleted meanwhile.";
  }

  function documentRow(name, content, remark = "") {
    const open = event => { event.preventDefault(); edit(name); };
    const row = h("tr", {},
      h("td", {}, h("a", { href: location.hash, class: "mono", onclick: open }, title(name))),
      h("td", { class: remark ? "preview muted" : "preview mono" },
        remark || content.slice(0, previewSize)),
      h("td", { class: "actions" },
        h("button", { class: "small", type: "button", onclick: open }, "Edit"), " ",
        h("button", { class: "small danger", type: "button",
          onclick: () => deleteDocument(name) }, "Delete")));
    row.dataset.title = title(name);
    markRow(row);
    return row;
  }

  function on() { after.disabled = true; starts.push(next); load(); }
  function back() { before.disabled = true; starts.pop(); load(); }
  function clear() { wanted = search.value = ""; starts.length = 1; load(); }
  function lookUp(event) {
    event.preventDefault();
    wanted = search.value;
    fill(body);
    load();
  }

  // MARK: One document

  async function read(name) {
    try {
      return await get(documentPath(bucket, name));
    } catch (problem) {
      if (problem.status === 404) return null;
      throw problem;
    }
  }

  async function deleteDocument(name) {
    if (!confirm(`Delete the document ${title(name)}?`)) return false;
    try {
      await remove(documentPath(bucket, name));
      notice(`${title(name)} was deleted`);
    } catch (problem) {
      if (!problem.errors) throw problem;
      notice(problem.status === 404 ? `${title(name)} was deleted already` : problem.message);
    }
    await load();
    return true;
  }

  async function edit(name) {
    let found = null;
    if (name !== null) {
      try {
        found = await read(name);
      } catch (problem) {
        if (!problem.errors) throw problem;
        return notice(problem.message);
      }
      if (!found) {
        notice(`The document ${title(name)} has been deleted`);
        return load();
      }
    }
    documentDialog(name, found);
  }

  function documentDialog(name, found) {
    const isNew = name === null;
    const isBinary = found && !("json" in found);
    const key = h("input", { autocomplete: "off", spellcheck: "false", value: isNew ? "" : title(name),
      readonly: !isNew });
    const content = h("textarea", { spellcheck: "false", readonly: isBinary });
    content.value = isNew ? "{\n  \n}" : isBinary ? found.base64 : pretty(found.json);
    const about = found && `Revision ${found.meta.rev.split("-")[0]}, flags ${found.meta.flags}, `
      + (found.meta.expiration
        ? `expires ${new Date(1000 * found.meta.expiration).toLocaleString()}` : "never expires");
    const form = h("form", { id: "document-form", novalidate: true },
      h("h2", {}, isNew ? "Create Document" : "Edit Document"),
      field({ id: "document-id", name: "id", label: "Document ID", control: key }),
      field({ id: "document-content", name: "value", control: content, hint: about,
        label: isBinary ? "Content (binary, in base 64; read-only)" : "JSON content" }),
      found && found.xattrs && attributesField(found.xattrs),
      formError("document-error"),
      h("div", { class: "buttons" },
        !isNew && h("button", { class: "danger", type: "button", id: "document-delete",
          onclick: async () => { if (await deleteDocument(name)) dialog.close(); } }, "Delete"),
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        !isBinary && h("button", { id: "document-save", class: "primary", type: "submit" }, "Save")));
    const dialog = openDialog(h("dialog", { id: "document-dialog", class: "wide" }, form));
    (isNew ? key : content).focus();
    form.addEventListener("submit", async event => {
      event.preventDefault();
      if (isBinary) return;
      const target = name ?? { id: key.value };
      const wrong = flaw(target.id, content.value);
      if (wrong) return showErrors(form, wrong);
      // The dialog closes before the request is sent, so its content cannot change meanwhile; if the
      // server refuses the request, the dialog opens again with the same content.
      try {
        if (isNew && await read(target)) {
          return showErrors(form, { id: "There is a document with this id already." });
        }
        dialog.close();
        const values = { value: content.value };
        if (found) Object.assign(values, { flags: found.meta.flags, preserveTTL: true });
        await post(documentPath(bucket, target), values);
      } catch (problem) {
        if (!problem.errors) throw problem;
        openDialog(dialog);
        return showErrors(form, problem.errors);
      }
      notice(`${title(target)} was saved`);
      await load();
    });
  }

  // Extended attributes are shown beside the document; saving keeps them.
  function attributesField(attributes) {
    const control = h("textarea", { class: "short", spellcheck: "false", readonly: true });
    control.value = JSON.stringify(attributes, null, 2);
    return field({ id: "document-attributes", name: "xattrs", control,
      label: "Extended attributes (read-only)" });
  }

  // A key that is not UTF-8 has no id and was not typed here, so only the content is checked.
  function flaw(id, text) {
    const bytes = new TextEncoder().encode(id ?? "-").length;
    if (bytes === 0) return { id: "A document needs an id." };
    if (bytes > 250) return { id: `An id has at most 250 bytes; this one has ${bytes}.` };
    try {
      JSON.parse(text);
    } catch (problem) {
      return { value: `This is not valid JSON: ${problem.message}` };
    }
    return null;
  }

  // Indents the text if that preserves it: a browser would round large numbers.
  function pretty(text) {
    const value = JSON.parse(text);
    const squeezed = text.replace(/\s+/g, "");
    return JSON.stringify(value).replace(/\s+/g, "") === squeezed
      ? JSON.stringify(value, null, 2) : text;
  }
}
