// One document: create, edit, delete. A save names the version that was opened, so that it cannot overwrite
// a change of another client unseen.

import { absent, getVersioned, post, remove, documentPath } from "/ui/api.js";
import { conflictArea } from "/ui/conflict.js";
import { h, notice, field, formError, showErrors, openDialog } from "/ui/dom.js";
import { indent } from "/ui/json.js";

// A document's displayed name; a key that is not UTF-8 is shown percent-encoded.
export const title = name => name.id ?? `${name.encodedId} (key is not UTF-8)`;

const textOf = found => "json" in found ? indent(found.json) : found.base64;

// Deletes a document. If it has changed since `version`, the user is asked again; returns whether it is
// deleted.
export async function deleteDocument(bucket, name, version) {
  if (!confirm(`Delete the document ${title(name)}?`)) return false;
  try {
    while (!await isRemoved(bucket, name, version)) {
      ({ version } = await getVersioned(documentPath(bucket, name)));
      if (version === absent) break;
      if (!confirm(`${title(name)} was changed meanwhile. Delete its present version?`)) return false;
    }
    notice(`${title(name)} was deleted`);
    return true;
  } catch (problem) {
    if (!problem.errors) throw problem;
    notice(problem.status === 404 ? `${title(name)} was deleted already` : problem.message);
    return problem.status === 404;
  }
}

// False if the document has another version.
async function isRemoved(bucket, name, version) {
  try {
    await remove(documentPath(bucket, name), version);
    return true;
  } catch (problem) {
    if (problem.status !== 412) throw problem;
    return false;
  }
}

// Opens the editor; without a name, for a new document. `changed` is called after a change.
export async function editDocument(bucket, name, may, changed) {
  if (name === null) return openEditor(bucket, null, null, absent, may, changed);
  try {
    const { value, version } = await getVersioned(documentPath(bucket, name));
    if (value) return openEditor(bucket, name, value, version, may, changed);
    notice(`The document ${title(name)} has been deleted`);
  } catch (problem) {
    if (!problem.errors) throw problem;
    return notice(problem.message);
  }
  await changed();
}

function openEditor(bucket, name, opened, openedVersion, may, changed) {
  const isNew = name === null;
  const isBinary = opened && !("json" in opened);
  const isFixed = isBinary || !may.write;
  let [found, version] = [opened, openedVersion];
  const key = h("input", { autocomplete: "off", spellcheck: "false", value: isNew ? "" : title(name),
    readonly: !isNew });
  const content = h("textarea", { spellcheck: "false", readonly: isFixed });
  content.value = isNew ? "{\n  \n}" : textOf(found);
  const conflict = conflictArea("document-conflict");
  const submit = h("button", { id: "document-save", class: "primary", type: "submit" }, "Save");
  const form = h("form", { id: "document-form", novalidate: true },
    h("h2", {}, isNew ? "Create Document" : isFixed ? "Document" : "Edit Document"),
    field({ id: "document-id", name: "id", label: "Document ID", control: key }),
    field({ id: "document-content", name: "value", control: content, hint: found && about(found.meta),
      label: isBinary ? "Content (binary, in base 64; read-only)" : "JSON content" }),
    found?.xattrs && attributesField(found.xattrs),
    formError("document-error"), conflict.element,
    h("div", { class: "buttons" },
      !isNew && may.remove && h("button", { class: "danger", type: "button", id: "document-delete",
        onclick: deleteThis }, "Delete"),
      h("button", { type: "button", onclick: () => dialog.close() }, isFixed ? "Close" : "Cancel"),
      !isFixed && submit));
  const dialog = openDialog(h("dialog", { id: "document-dialog", class: "wide" }, form));
  // The cursor of a text that is set is at its end, which would scroll there.
  content.setSelectionRange(0, 0);
  key.scrollLeft = 0;
  (isNew ? key : content).focus();
  form.addEventListener("submit", save);

  async function deleteThis() {
    if (!await deleteDocument(bucket, name, version)) return;
    dialog.close();
    await changed();
  }

  async function save(event) {
    event.preventDefault();
    if (isFixed || content.readOnly) return;
    const target = name ?? { id: key.value };
    const wrong = flaw(target.id, content.value);
    if (wrong) return showErrors(form, wrong);
    // The content cannot change while it is sent.
    content.readOnly = submit.disabled = true;
    try {
      const values = { value: content.value };
      if (found) Object.assign(values, { flags: found.meta.flags, preserveTTL: true });
      await post(documentPath(bucket, target), values, version);
    } catch (problem) {
      if (!problem.errors) throw problem;
      if (problem.status === 412) return await showConflict(target);
      return showErrors(form, problem.errors);
    } finally {
      content.readOnly = submit.disabled = false;
    }
    dialog.close();
    notice(`${title(target)} was saved`);
    await changed();
  }

  async function showConflict(target) {
    try {
      const present = await getVersioned(documentPath(bucket, target));
      if (isNew && present.value) {
        return showErrors(form, { id: "There is a document with this id already." });
      }
      ({ value: found, version } = present);
    } catch (problem) {
      if (!problem.errors) throw problem;
      return showErrors(form, problem.errors);
    }
    showErrors(form, {});
    if (!found) {
      return conflict.show("The document was deleted after it was opened. Saving creates it again.",
        [["Content", content.value, "(deleted)"]]);
    }
    conflict.show("Another client changed the document after it was opened. Nothing has been saved. "
      + "Saving now replaces the present version by yours.",
    [["Content", content.value, textOf(found)]], "json" in found && (() => {
      content.value = textOf(found);
      content.setSelectionRange(0, 0);
      dialog.isChanged = false;
      content.focus();
    }));
  }
}

function about({ rev, flags, expiration }) {
  const end = expiration ? `expires ${new Date(1000 * expiration).toLocaleString()}` : "never expires";
  return `Revision ${rev.split("-")[0]}, flags ${flags}, ${end}`;
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
