// Changes of the views of a design document. Each names the revision that it is based on, so that it cannot
// overwrite a change of another client unseen.

import { absent, getVersioned, put, remove, designPath } from "/ui/api.js";

// Another client changed what a request would replace. `present` is the view or the document as it is now.
export class Conflict extends Error {
  constructor(present) {
    super("Another client changed it meanwhile.");
    this.present = present;
  }
}

// How often a change is repeated if other clients change other views of the same document meanwhile.
const attemptsMax = 5;

const sorted = value => value && typeof value === "object" && !Array.isArray(value)
  ? Object.fromEntries(Object.keys(value).sort().map(name => [name, sorted(value[name])])) : value;
const isSame = (one, other) => JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));

// Sets one view of a design document, or deletes it without a definition; the other views and members stay
// as they are. `base` is the view that the user has seen, undefined if there was none. Throws a `Conflict` if
// the view is another one now.
export async function changeView(bucket, name, view, definition, base) {
  await change(bucket, name, json => {
    if (!isSame(json?.views?.[view], base)) throw new Conflict(json?.views?.[view]);
    const views = { ...json?.views, [view]: definition };
    if (definition === undefined) delete views[view];
    return Object.keys(views).length || definition ? { ...json, views } : null;
  });
}

// Replaces a design document by another one. `base` is the document that the user has seen, undefined if
// there was none. Throws a `Conflict` if it is another one now.
export async function replaceDesign(bucket, name, json, base) {
  await change(bucket, name, present => {
    if (!isSame(present ?? undefined, base)) throw new Conflict(present);
    return json;
  });
}

// Stores what `make` returns for the present document; null deletes it.
async function change(bucket, name, make) {
  const path = designPath(bucket, name);
  for (let attempt = 1; ; attempt += 1) {
    const { value, version } = await getVersioned(path);
    const json = make(value);
    try {
      if (json) await put(path, json, version);
      else if (version !== absent) await remove(path, version);
      return;
    } catch (problem) {
      if (problem.status !== 412 || attempt === attemptsMax) throw problem;
    }
  }
}
