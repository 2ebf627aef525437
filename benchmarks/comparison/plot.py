"""Bars with the targets marked, as SVG written by hand: no library needed."""

from xml.sax.saxutils import escape

WIDTH, LABEL, BAR, GAP = 760, 300, 22, 12
COLORS = {"met": "#2a7f62", "stretch": "#2a7f62", "**missed**": "#b5533c", "": "#4a6fa5"}


def bars(path, title, rows, axis):
    """One bar a row: (label, value, must, stretch, text, verdict)."""
    most = max([v for _, value, must, stretch, _, _ in rows
                for v in (value, must or 0, stretch or 0)] + [1e-9]) * 1.12
    scale = (WIDTH - LABEL - 110) / most
    height = 70 + len(rows) * (BAR + GAP) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="16" y="26" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="16" y="46" fill="#666">{escape(axis)}</text>',
    ]
    for place, (label, value, must, stretch, text, verdict) in enumerate(rows):
        top = 62 + place * (BAR + GAP)
        middle = top + BAR / 2 + 5
        length = max(1, value * scale)
        parts.append(
            f'<text x="{LABEL - 10}" y="{middle}" text-anchor="end">{escape(label)}</text>'
            f'<rect x="{LABEL}" y="{top}" width="{length:.1f}" height="{BAR}" '
            f'fill="{COLORS[verdict]}"/>'
            f'<text x="{LABEL + max(length, (stretch or must or 0) * scale) + 8:.1f}" '
            f'y="{middle}">{escape(text)}</text>'
        )
        for goal, dash in ((must, ""), (stretch, ' stroke-dasharray="3 3"')):
            if goal is None:
                continue
            x = LABEL + goal * scale
            parts.append(
                f'<line x1="{x:.1f}" y1="{top - 4}" x2="{x:.1f}" y2="{top + BAR + 4}" '
                f'stroke="black" stroke-width="2"{dash}/>'
            )
    parts.append("</svg>")
    with open(path, "w") as out:
        out.write("\n".join(parts) + "\n")


def speed(path, table):
    from .report import verdict

    rows = [
        (f"depth {row['depth']} ({row['by']})", row["ratio"], row["must"], row["stretch"],
         f"{row['ratio']:.2f}", verdict(row["ratio"], row["must"], row["stretch"]))
        for row in table["rows"]
    ]
    bars(path, table["title"], rows,
         f"{table['peer']} = 1; the line is what must be reached, the dashed one the stretch")


def figures(path, found):
    """The value relative to the required one, so that seconds and bytes fit one plot."""
    from .report import verdict

    rows = []
    for row in found:
        if row["must"] is None or row["value"] <= 0:
            continue
        better = (lambda value: row["must"] / value) if row["smaller"] else (
            lambda value: value / row["must"])
        stretch = better(row["stretch"]) if row["stretch"] else None
        rows.append((
            row["what"][:44], min(better(row["value"]), 8), 1, stretch,
            f"{row['value']:.2f} {row['unit']}",
            verdict(row["value"], row["must"], row["stretch"], row["smaller"]),
        ))
    bars(path, "Figures", rows, "1 = what must be reached; longer is better")
