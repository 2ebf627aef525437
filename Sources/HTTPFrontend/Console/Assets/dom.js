// Builds the page from values. Text is inserted only as text nodes, so content of documents and names
// cannot become markup.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "checked") element.checked = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

// Sets an element's text only if it differs, which preserves the user's selection.
export function setText(element, text) {
  if (element.textContent !== String(text)) element.textContent = text;
}

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
export const count = number => whole.format(number || 0);

// A number with its noun: 1 bucket, 2 buckets.
export const counted = (number, one, many = `${one}s`) =>
  `${count(number)} ${number === 1 ? one : many}`;

export function size(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let [value, unit] = [bytes || 0, 0];
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function duration(seconds) {
  const [days, hours, minutes] = [seconds / 86400, seconds / 3600, seconds / 60].map(Math.floor);
  if (days > 0) return `${days} d ${hours % 24} h`;
  if (hours > 0) return `${hours} h ${minutes % 60} min`;
  return minutes > 0 ? `${minutes} min` : `${Math.floor(seconds)} s`;
}

export function bar(label) {
  const fillElement = h("i");
  const element = h("div", { class: "bar", role: "meter", "aria-label": label, "aria-valuemin": 0,
    "aria-valuemax": 100 }, fillElement);
  element.show = share => {
    const percent = Math.max(0, Math.min(100, 100 * (share || 0)));
    fillElement.style.width = `${percent}%`;
    element.setAttribute("aria-valuenow", Math.round(percent));
    element.classList.toggle("full", percent > 90);
  };
  return element;
}

// A minute of numbers as a line.
export function spark(label) {
  const space = "http://www.w3.org/2000/svg";
  const line = document.createElementNS(space, "polyline");
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", "0 0 59 20");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  svg.append(line);
  svg.show = values => {
    const top = Math.max(1, ...values);
    const points = values.map((value, at) =>
      `${59 - (values.length - 1 - at)},${(19 - 18 * value / top).toFixed(2)}`);
    line.setAttribute("points", points.join(" "));
  };
  return svg;
}

let timer;
export function notice(text) {
  const element = document.getElementById("notice");
  element.textContent = text;
  element.classList.add("shown");
  clearTimeout(timer);
  timer = setTimeout(() => { element.classList.remove("shown"); element.textContent = ""; }, 4000);
}

// MARK: Forms

let fields = 0;

// A field with its label, hint and a place for its error.
export function field({ id, name, label, hint, control }) {
  const key = id || `field-${fields += 1}`;
  control.id = key;
  if (name) control.name = name;
  const error = h("p", { class: "error", id: `${key}-error`, "aria-live": "polite" });
  control.setAttribute("aria-describedby", `${key}-error`);
  const element = control.type === "checkbox"
    ? h("div", { class: "field" }, h("label", { class: "check", for: key }, control, label),
      hint && h("p", { class: "hint" }, hint), error)
    : h("div", { class: "field" }, h("label", { for: key }, label), control,
      hint && h("p", { class: "hint" }, hint), error);
  element.control = control;
  element.field = name;
  element.refuse = text => {
    error.textContent = text || "";
    control.setAttribute("aria-invalid", text ? "true" : "false");
  };
  return element;
}

// Shows each error at its field, and errors of no field at the end of the form.
export function showErrors(form, errors) {
  let first;
  const rest = { ...errors };
  for (const element of form.querySelectorAll(".field")) {
    if (!element.refuse) continue;
    const text = rest[element.field];
    element.refuse(text);
    delete rest[element.field];
    if (text && !first) first = element.control ?? element.querySelector("input, select, textarea");
    if (text) element.closest("details")?.setAttribute("open", "");
  }
  fill(form.querySelector(".form-error"), listOf(Object.values(rest)));
  first?.focus();
}

// Errors as a list, for an alert region; nothing without errors.
export const listOf = texts => texts.length ? h("ul", {}, texts.map(text => h("li", {}, text))) : [];

// Sends a form on submit and then calls `done`, unless `send` returns false; errors of a refusal are shown in
// the form.
export function onSubmit(form, button, send, done) {
  form.addEventListener("submit", async event => {
    event.preventDefault();
    button.disabled = true;
    try {
      if (await send() === false) return;
    } catch (error) {
      if (!error.errors) throw error;
      return showErrors(form, error.errors);
    } finally {
      button.disabled = false;
    }
    await done();
  });
}

export const formError = id => h("div", { class: "error form-error", id, role: "alert" });

// MARK: Tables

// A table. Each cell has the heading of its column, which is shown beside it where the window is narrow; the
// roles keep the table's structure there.
export function table(headings, body, style = "") {
  body.setAttribute("role", "rowgroup");
  return h("table", { class: `list ${style}`, role: "table" }, h("thead", { role: "rowgroup" },
    h("tr", { role: "row" }, headings.map(({ text, kind }) => h("th", { scope: "col", role: "columnheader",
      class: kind === "actions" ? null : kind }, kind === "actions" ? h("span", { class: "unseen" }, text) : text)))),
  body);
}

// The columns of a table: names, or pairs of a name and a kind (`number`, `actions`).
export const columns = (...each) =>
  each.map(one => typeof one === "string" ? { text: one } : { text: one[0], kind: one[1] });

// A row of such a table.
export function row(headings, attributes, ...cells) {
  cells.forEach((cell, at) => {
    cell.setAttribute("role", "cell");
    if (headings[at].text && headings[at].kind !== "actions") cell.dataset.label = headings[at].text;
    if (headings[at].kind) cell.classList.add(headings[at].kind);
  });
  return h("tr", { role: "row", ...attributes }, cells);
}

// MARK: Dialogs

let titles = 0;
// Dialogs with changed fields that were closed because the session ended; they open again after the login.
const suspended = new Set();

// Opens a dialog, which is removed from the page when it closes.
export function openDialog(dialog) {
  const heading = dialog.querySelector("h2");
  if (heading) {
    heading.id ||= `dialog-title-${titles += 1}`;
    dialog.setAttribute("aria-labelledby", heading.id);
  }
  dialog.oninput = () => { dialog.isChanged = true; };
  dialog.onclose = () => { if (!suspended.has(dialog)) dialog.remove(); };
  // Escape asks before it discards changes; Cancel does not.
  dialog.onkeydown = event => {
    const discards = event.key === "Escape" && dialog.isChanged;
    if (discards && !confirm("Discard your changes?")) event.preventDefault();
  };
  if (!dialog.isConnected) document.body.append(dialog);
  if (!dialog.open) dialog.showModal();
  return dialog;
}

// Whether a dialog has changes that were not sent.
export const hasChangedDialog = () =>
  suspended.size > 0 || [...document.querySelectorAll("dialog[open]")].some(dialog => dialog.isChanged);

export function suspendDialogs() {
  for (const dialog of document.querySelectorAll("dialog[open]")) {
    if (dialog.isChanged) suspended.add(dialog);
    dialog.close();
  }
}

export function resumeDialogs() {
  for (const dialog of suspended) dialog.showModal();
  suspended.clear();
}

export function discardDialogs() {
  for (const dialog of suspended) dialog.remove();
  suspended.clear();
}
