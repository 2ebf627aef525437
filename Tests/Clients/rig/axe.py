"""Checks of the page for people with disabilities: axe-core, injected into the browser's page."""

import importlib.util
import json
import pathlib

_PLACE = importlib.util.find_spec("axe_core_python").submodule_search_locations[0]
SCRIPT = (pathlib.Path(_PLACE) / "axe.min.js").read_text()


def violations(page):
    """What axe finds on the page as it is shown: for each rule the elements that violate it."""
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate(f"{SCRIPT}; true")
    found = page.evaluate("""axe.run(document, { resultTypes: ['violations'] }).then(result =>
        JSON.stringify(result.violations.map(rule => [rule.id, rule.nodes.map(node =>
            node.html.slice(0, 120) + ' ' + (node.any[0]?.message ?? node.failureSummary))])))""")
    return dict(json.loads(found))


def sideways(page):
    """What reaches beyond the window's width, and the header if it has more than one row."""
    return page.evaluate("""(() => {
        const width = document.documentElement.clientWidth;
        const found = [...document.querySelectorAll('main button, main a, main select, header *, dialog *')]
            .filter(e => e.getClientRects().length && e.getBoundingClientRect().right > width + 1)
            .map(e => e.outerHTML.slice(0, 100));
        if (document.documentElement.scrollWidth > width) {
            const wide = [...document.querySelectorAll('body *')].filter(e => e.getClientRects().length
                && e.getBoundingClientRect().right > width + 1).map(e => e.outerHTML.slice(0, 100));
            found.push('the page scrolls sideways', ...wide.slice(0, 5));
        }
        const header = document.getElementById('top').getBoundingClientRect();
        if (header.height > 64) found.push(`the header has ${header.height} px`);
        return found;
    })()""")
