// The console's requests. Every request has the header without which the server ignores the session's
// cookie.

export class Refused extends Error {
  constructor(status, errors) {
    super(Object.values(errors).join(" "));
    this.status = status;
    this.errors = errors;
  }
}

export class LoggedOut extends Error {}

// The version of an object that must not exist yet.
export const absent = Symbol("absent");

// A body that is sent as JSON instead of a form.
class JSONText {
  constructor(value) { this.text = JSON.stringify(value); }
}

// In milliseconds. A stopped process still accepts connections, so polling needs a timeout.
const pollTimeout = 5000;

// Sends a request. Without a timeout it waits indefinitely: a change is still in progress. A token is that
// of a node without a cluster. If the object has another version than `version`, the server refuses the
// change with 412.
async function exchange(method, path, form, { timeout, token, version } = {}) {
  const headers = { "ns-server-ui": "yes", "invalid-auth-response": "on" };
  if (token) headers.Authorization = `Basic ${btoa(`console:${token}`)}`;
  if (version === absent) headers["If-None-Match"] = "*";
  else if (version !== undefined) headers["If-Match"] = `"${version}"`;
  const signal = timeout ? AbortSignal.timeout(timeout) : undefined;
  const options = { method, headers, credentials: "same-origin", cache: "no-store", signal };
  if (form instanceof JSONText) {
    headers["Content-Type"] = "application/json";
    options.body = form.text;
  } else if (typeof form === "string") options.body = form;
  else if (form) options.body = new URLSearchParams(form);
  let response, text;
  try {
    response = await fetch(path, options);
    text = await response.text();
  } catch (error) {
    const isLate = error.name === "TimeoutError";
    throw new Refused(0, { _: isLate ? "The server does not answer." : "The server cannot be reached." });
  }
  if (response.ok) return { text, version: versionIn(response) };
  if (response.status === 401) throw new LoggedOut();
  throw new Refused(response.status, errorsIn(text, response.status));
}

// The version in a reply; a proxy that compresses replies marks it as weak.
const versionIn = response => response.headers.get("ETag")?.match(/^(?:W\/)?"(.*)"$/)?.[1];

export async function send(method, path, form, options) {
  const { text } = await exchange(method, path, form, options);
  return text ? JSON.parse(text) : null;
}

// The errors of a reply: converts the server's four shapes of errors to one object by field.
function errorsIn(text, status) {
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    return { _: text.trim() || `The server replied with status ${status}.` };
  }
  if (typeof json === "string") return { _: json };
  if (Array.isArray(json)) return { _: json.join(" ") };
  if (json.errors) return json.errors;
  if (json.reason) return { _: json.reason };
  if (json.permissions) return { _: `${json.message}: ${json.permissions.join(", ")}` };
  if (json.message) return { _: json.message };
  return json;
}

// Opens an answer that arrives in parts.
export const openFeed = (path, form, signal) => fetch(path, {
  method: "POST",
  headers: { "ns-server-ui": "yes", "invalid-auth-response": "on" },
  body: new URLSearchParams(form),
  credentials: "same-origin",
  cache: "no-store",
  signal,
});

export const get = path => send("GET", path);
// The text of an answer, for JSON whose numbers the browser would round.
export const getText = async path => (await exchange("GET", path)).text;
// An object and its version, with which a change can name what it is based on; both are of an object
// that does not exist, too: null and `absent`.
export async function getVersioned(path) {
  try {
    const { text, version } = await exchange("GET", path);
    return { value: JSON.parse(text), version };
  } catch (problem) {
    if (problem.status === 404) return { value: null, version: absent };
    throw problem;
  }
}
// A request that is repeated every second and therefore times out.
export const poll = path => send("GET", path, null, { timeout: pollTimeout });
export const post = (path, form = {}, version) => send("POST", path, form, { version });
export const put = (path, value, version) => send("PUT", path, new JSONText(value), { version });
// A change whose fields are sent as a form.
export const putForm = (path, form, version) => send("PUT", path, form, { version });
export const patchForm = (path, form) => send("PATCH", path, form);
export const remove = (path, version) => send("DELETE", path, null, { version });

// MARK: Permissions

// In milliseconds; rights may change while a screen is shown.
const permissionsAge = 5000;
let granted = {};
let grantedAt = 0;

// Which of some permissions the user has: an object of booleans.
export async function checkPermissions(permissions) {
  if (Date.now() - grantedAt > permissionsAge) forgetPermissions();
  const unknown = permissions.filter(permission => !(permission in granted));
  if (unknown.length) {
    const options = { timeout: pollTimeout };
    const found = await send("POST", "/pools/default/checkPermissions", unknown.join(","), options);
    granted = { ...granted, ...found };
  }
  return granted;
}

// Another user may have logged in.
export function forgetPermissions() {
  granted = {};
  grantedAt = Date.now();
}

// MARK: Paths

export const bucketPath = name => `/pools/default/buckets/${encodeURIComponent(name)}`;
// The admin port has the routes of the view port under this path.
export const designPath = (bucket, name) =>
  `/couchBase/${encodeURIComponent(bucket)}/_design/${encodeURIComponent(name)}`;
// A document is addressed by its id, or by the percent-encoded bytes of a key that is not UTF-8.
// Browsers remove "." and ".." from every path, even if encoded; the request would address the bucket.
export function documentPath(bucket, { id, encodedId }) {
  if (id === "." || id === "..") {
    throw new Refused(0, { _: `A browser cannot address the document “${id}”. Use another client.` });
  }
  return `${bucketPath(bucket)}/docs/${encodedId ?? encodeURIComponent(id)}`;
}
