// Documents: list in pages, look up by id.

import { getText, bucketPath, documentPath, checkPermissions } from "/ui/api.js";
import { followChanges } from "/ui/changes.js";
import { deleteDocument, editDocument, title } from "/ui/documenteditor.js";
import { h, fill, row as tableRow, columns, table } from "/ui/dom.js";
import { elements, members } from "/ui/json.js";

const pageSize = 20;
const previewSize = 200;
// Bytes of documents that a page reads for its previews; further rows have ids only.
const pageBytes = 16 << 20;
// How long a new or changed document is lit up, and the least pause between two reloads of a page.
const litMilliseconds = 4000;
const reloadMilliseconds = 1000;

const headings = columns("Id", "Content", ["Actions", "actions"]);

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
  const create = h("button", { id: "document-create-button", class: "primary", type: "button", hidden: true,
    onclick: () => edit(null) }, "Create Document");
  const tools = h("div", { class: "head" }, form, create);
  const list = h("section", { class: "card" }, table(headings, body), empty);
  const paging = h("div", { class: "buttons" }, range, before, after);
  const element = h("div", { id: "documents" },
    h("div", { class: "head" }, h("h1", {}, "Documents"),
      h("div", { class: "inline" }, h("label", { for: "documents-bucket" }, "Bucket"), choice)),
    tools, error, list, paging);
  for (const part of [tools, list, paging]) part.hidden = true;

  let names = null;
  // The changes that the user's roles permit on this bucket.
  const may = { read: false, write: false, remove: false };
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
    await askPermissions();
    list.hidden = false;
    if (!may.read) {
      showEmpty("Your roles do not include reading the documents of this bucket.");
      return;
    }
    for (const part of [tools, paging]) part.hidden = false;
    await load();
    if (isFollowing) return;
    isFollowing = true;
    followChanges(bucket, () => element.isConnected, lightUp);
  }

  async function askPermissions() {
    const permission = act => `cluster.bucket[${bucket}].data.docs!${act}`;
    const granted = await checkPermissions(["read", "upsert", "delete"].map(permission));
    Object.assign(may, { read: granted[permission("read")], write: granted[permission("upsert")],
      remove: granted[permission("delete")] });
    create.hidden = !may.write;
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
    const answer = members(await getText(`${bucketPath(bucket)}/docs?${query}`));
    const rows = elements(answer.rows).map(parsed);
    return () => {
      next = rows.length > pageSize ? startOf(rows[pageSize]) : null;
      const shown = rows.slice(0, pageSize);
      fill(body, shown.map(row => documentRow(row, row.content, whyAbsent(row), row.version)));
      const first = (starts.length - 1) * pageSize + 1;
      range.textContent = shown.length < 2
        ? shown.length && first || "" : `${first} to ${first + shown.length - 1}`;
      before.disabled = starts.length === 1;
      after.disabled = next === null;
      showEmpty(shown.length ? "" : "There are no documents here.");
    };
  }

  async function loadOne(id) {
    const found = await getText(documentPath(bucket, { id })).then(JSON.parse).catch(problem => {
      if (problem.status === 404) return null;
      throw problem;
    });
    return () => {
      fill(body, found ? documentRow({ id }, found.json ?? `${found.base64} (base 64)`, "", found.meta.rev)
        : []);
      range.textContent = "";
      before.disabled = after.disabled = true;
      showEmpty(found ? "" : `There is no document with the id ${id}.`);
    };
  }

  function showEmpty(text) {
    empty.hidden = !text;
    empty.textContent = text;
  }

  // A row of the page; the content stays the text that is stored.
  function parsed(text) {
    const { doc, ...rest } = members(text);
    const row = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, JSON.parse(value)]));
    if (!doc) return { ...row, content: "" };
    const { json, base64, meta } = members(doc);
    return { ...row, isFound: true, version: JSON.parse(meta).rev,
      content: json ?? `${JSON.parse(base64)} (base 64)` };
  }

  // Why a row has no content, so that a document that is not shown does not look deleted.
  function whyAbsent({ isFound, error, reason }) {
    if (error === "not_included") return "Not shown: the page is large. Edit opens the document.";
    return error ? `Not shown: ${reason.replace(/\.$/, "")}.` : isFound ? "" : "Deleted meanwhile.";
  }

  function documentRow({ id, encodedId }, content, remark, version) {
    const name = { id, encodedId };
    const open = event => { event.preventDefault(); edit(name); };
    const removeThis = async () => {
      await deleteDocument(bucket, name, version);
      await load();
    };
    const row = tableRow(headings, {},
      h("td", {}, h("a", { href: location.hash, class: "mono", onclick: open }, title(name))),
      h("td", { class: remark ? "preview muted" : "preview mono" },
        remark || content.slice(0, previewSize)),
      h("td", {},
        h("button", { class: "small", type: "button", onclick: open }, may.write ? "Edit" : "View"), " ",
        may.remove && h("button", { class: "small danger", type: "button", onclick: removeThis }, "Delete")));
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

  function edit(name) { return editDocument(bucket, name, may, load); }
}
