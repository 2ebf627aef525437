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
  for (const child of children.flat()) {
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
    if (text && !first) first = element.querySelector("input, select, textarea");
    if (text) element.closest("details")?.setAttribute("open", "");
  }
  form.querySelector(".form-error").textContent = Object.values(rest).join(" ");
  first?.focus();
}

// Sends a form on submit and then calls `done`; errors of a refusal are shown in the form.
export function onSubmit(form, button, send, done) {
  form.addEventListener("submit", async event => {
    event.preventDefault();
    button.disabled = true;
    try {
      await send();
    } catch (error) {
      if (!error.errors) throw error;
      return showErrors(form, error.errors);
    } finally {
      button.disabled = false;
    }
    await done();
  });
}

export const formError = id => h("p", { class: "error form-error", id, role: "alert" });

// Opens a dialog, which is removed from the page when it closes.
export function openDialog(dialog) {
  dialog.addEventListener("close", () => dialog.remove(), { once: true });
  if (!dialog.isConnected) document.body.append(dialog);
  if (!dialog.open) dialog.showModal();
  return dialog;
}
