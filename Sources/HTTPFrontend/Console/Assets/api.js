// What the page asks of its server. Every request carries the header without which the session's
// cookie counts for nothing.

export class Refused extends Error {
  constructor(status, errors) {
    super(Object.values(errors).join(" "));
    this.status = status;
    this.errors = errors;
  }
}

export class LoggedOut extends Error {}

// A node that stands still accepts connections and answers none; in milliseconds.
const pollPatience = 5000;

// Waits for as long as it takes where no patience is named: what was ordered is still under way.
export async function ask(method, path, form, patience) {
  const headers = { "ns-server-ui": "yes", "invalid-auth-response": "on" };
  const signal = patience ? AbortSignal.timeout(patience) : undefined;
  const options = { method, headers, credentials: "same-origin", cache: "no-store", signal };
  if (form) options.body = new URLSearchParams(form);
  let response, text;
  try {
    response = await fetch(path, options);
    text = await response.text();
  } catch (error) {
    const isLate = error.name === "TimeoutError";
    throw new Refused(0, { _: isLate ? "The server does not answer." : "The server cannot be reached." });
  }
  if (response.ok) return text ? JSON.parse(text) : null;
  if (response.status === 401) throw new LoggedOut();
  throw new Refused(response.status, errorsIn(text, response.status));
}

// The four shapes in which the server says what is wrong, as one.
function errorsIn(text, status) {
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    return { _: text.trim() || `The server answered ${status}.` };
  }
  if (typeof json === "string") return { _: json };
  if (Array.isArray(json)) return { _: json.join(" ") };
  if (json.errors) return json.errors;
  if (json.reason) return { _: json.reason };
  if (json.message) return { _: json.message };
  return json;
}

export const get = path => ask("GET", path);
// What is asked again in a second, and is soon answered or not at all.
export const poll = path => ask("GET", path, null, pollPatience);
export const post = (path, form = {}) => ask("POST", path, form);
export const remove = path => ask("DELETE", path);

export const bucketPath = name => `/pools/default/buckets/${encodeURIComponent(name)}`;
// A document is named by its id, or by the percent-encoded bytes of a key that is not UTF-8. Browsers
// remove "." and ".." from every path, also encoded: the request would be one to the bucket.
export function documentPath(bucket, { id, encodedId }) {
  if (id === "." || id === "..") {
    throw new Refused(0, { _: `A browser cannot address the document “${id}”. Use another client.` });
  }
  return `${bucketPath(bucket)}/docs/${encodedId ?? encodeURIComponent(id)}`;
}
