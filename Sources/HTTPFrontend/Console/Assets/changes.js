// Follows a bucket's changes by the HTTP feed, for a screen that shows its documents.

import { openFeed, bucketPath } from "/ui/api.js";

// Seconds between two signs of life of the feed, after which the screen may have been left.
const heartbeat = 2;
const retryMilliseconds = 5000;
// Answers that a repetition does not change: no permission, no bucket, no such feed.
const final = [401, 403, 404, 405, 410];

const pause = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds));

// Calls `changed` with the changes after the call, until `isShown` is false.
export async function followChanges(bucket, isShown, changed) {
  let since = "now";
  while (isShown()) {
    const abort = new AbortController();
    try {
      const form = { feed: "longpoll", heartbeat, since };
      const response = await openFeed(`${bucketPath(bucket)}/changes`, form, abort.signal);
      if (final.includes(response.status)) return;
      if (!response.ok) throw new Error();
      let changes = [];
      for await (const line of lines(response)) {
        if (!isShown()) return;
        if (!line) continue;
        const each = JSON.parse(line);
        if (each.token) since = each.token;
        else if ("id" in each) changes.push(each);
        if (each.token && changes.length) {
          changed(changes);
          changes = [];
        }
      }
    } catch {
      // The node restarts, or the network fails.
      await pause(retryMilliseconds);
    } finally {
      abort.abort();
    }
  }
}

async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
}
