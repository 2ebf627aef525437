// The choice between two versions: the user's, which is in the form, and the present one, which another
// client stored meanwhile.

import { h, fill } from "/ui/dom.js";

// A place in a form for such a choice. `keep` is the form's submit button: it saves the user's version over
// the present one.
export function conflictArea(id) {
  const words = h("p");
  const versions = h("div", { class: "versions" });
  const use = h("button", { id: `${id}-use`, type: "button" }, "Use the present version");
  const keep = h("button", { id: `${id}-keep`, class: "danger", type: "submit" }, "Save mine");
  const element = h("section", { id, class: "conflict", role: "alert", hidden: true }, words, versions,
    h("div", { class: "buttons" }, use, keep));
  return { element, show, hide };

  // `differences` are triples of a name, the user's text and the present text.
  function show(sentence, differences, adopt) {
    words.textContent = sentence;
    fill(versions, differences.map(([name, mine, present]) => [
      h("h3", {}, name),
      h("div", { class: "two" },
        h("div", {}, h("p", { class: "hint" }, "Yours"), text(mine)),
        h("div", {}, h("p", { class: "hint" }, "Present"), text(present)))]));
    use.hidden = !adopt;
    use.onclick = () => {
      hide();
      adopt();
    };
    element.hidden = false;
    element.scrollIntoView({ block: "nearest" });
    keep.focus();
  }

  function hide() { element.hidden = true; }
}

const text = value => h("pre", { class: "mono document", tabindex: 0 }, value === "" ? "(empty)" : value);
