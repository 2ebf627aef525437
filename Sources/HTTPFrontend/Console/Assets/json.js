// JSON as text. A browser's numbers would change `1.0`, `183.50` and integers of 64 bits, so documents are
// shown and edited as the text that is stored. The text has to be valid JSON.

const isBlank = character => character === " " || character === "\n" || character === "\t" || character === "\r";
const isMark = character => "{}[]:,".includes(character);

// The end of the token that begins at a place.
function endOfToken(text, at) {
  if (text[at] !== "\"") {
    if (isMark(text[at])) return at + 1;
    let end = at + 1;
    while (end < text.length && !isBlank(text[end]) && !isMark(text[end])) end += 1;
    return end;
  }
  for (let end = text.indexOf("\"", at + 1); ; end = text.indexOf("\"", end + 1)) {
    let escapes = 0;
    while (text[end - 1 - escapes] === "\\") escapes += 1;
    if (escapes % 2 === 0) return end + 1;
  }
}

function* tokens(text) {
  for (let at = 0; at < text.length;) {
    if (isBlank(text[at])) {
      at += 1;
      continue;
    }
    const end = endOfToken(text, at);
    yield [at, end];
    at = end;
  }
}

// The text with each value on a line of its own, and all else as it is written.
export function indent(text) {
  const parts = [];
  let depth = 0;
  let before = "";
  for (const [start, end] of tokens(text)) {
    const token = text.slice(start, end);
    const isEnd = token === "}" || token === "]";
    if (isEnd) depth -= 1;
    const isFirst = before === "{" || before === "[";
    if (isEnd ? !isFirst : isFirst || before === ",") parts.push("\n", "  ".repeat(depth));
    parts.push(token);
    if (token === ":") parts.push(" ");
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return parts.join("");
}

// The members of an object, or the elements of an array, as pairs of a name and the text of a value. The
// name of an element is null.
function entries(text) {
  const found = [];
  let depth = 0;
  let [name, first, last, before] = [null, null, null, null];
  for (const [start, end] of tokens(text)) {
    const mark = end - start === 1 ? text[start] : "";
    if (mark === "}" || mark === "]") depth -= 1;
    if (depth === 0 && mark && first !== null) found.push([name, text.slice(first, last)]);
    else if (depth === 1 && mark === ",") {
      found.push([name, text.slice(first, last)]);
      [name, first] = [null, null];
    } else if (depth === 1 && mark === ":") {
      [name, first] = [JSON.parse(before), null];
    } else if (depth > 0) {
      first ??= start;
      last = end;
    }
    before = text.slice(start, end);
    if (mark === "{" || mark === "[") depth += 1;
  }
  return found;
}

// The members of an object, each as the text of its value; the last one of a name counts.
export const members = text => Object.fromEntries(entries(text));

// The elements of an array, each as its text.
export const elements = text => entries(text).map(([, value]) => value);
