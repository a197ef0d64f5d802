"""A small writer of SVG pictures in two themes, without packages of other people."""
from html import escape

LIGHT = {"ink": "#1f2328", "faint": "#59636e", "line": "#afb8c1", "box": "#f6f8fa",
         "strong": "#ddf4ff", "edge": "#0969da", "bar": "#0969da", "other": "#8c959f",
         "warm": "#fff1e5"}
DARK = {"ink": "#f0f6fc", "faint": "#9198a1", "line": "#59636e", "box": "#161b22",
        "strong": "#10294a", "edge": "#4493f8", "bar": "#4493f8", "other": "#6e7681",
        "warm": "#3d2413"}
FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif"


class Picture:
    """Shapes by name of colour; `text()` gives the file."""

    def __init__(self, width, height, title, theme):
        self.size, self.title, self.theme, self.parts = (width, height), title, theme, []

    def words(self, x, y, text, size=15, color="ink", anchor="start", bold=False):
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" '
                          f'fill="{self.theme[color]}"{weight}>{escape(text)}</text>')

    def rectangle(self, x, y, width, height, fill="box", edge="line", round_by=6, dashed=False):
        stroke = f' stroke="{self.theme[edge]}"' if edge else ""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
                          f'rx="{round_by}" fill="{self.theme[fill]}"{stroke}{dash}/>')

    def box(self, x, y, width, height, title, *lines, fill="box", edge="line", dashed=False):
        """A rectangle with a bold title and lines below it, centred."""
        self.rectangle(x, y, width, height, fill, edge, dashed=dashed)
        top = y + height / 2 - 9 * len(lines) + 5
        self.words(x + width / 2, top, title, 15, anchor="middle", bold=True)
        for i, line in enumerate(lines, 1):
            self.words(x + width / 2, top + 18 * i, line, 13, "faint", "middle")

    def line(self, *points, color="line", arrow=False, dashed=False):
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        head = ' marker-end="url(#head)"' if arrow else ""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{self.theme[color]}" '
                          f'stroke-width="1.5"{head}{dash}/>')

    def text(self):
        width, height = self.size
        head = ('<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
                'markerHeight="7" orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" '
                f'fill="{self.theme["line"]}"/></marker></defs>')
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" role="img" font-family="{escape(FONT)}">\n'
                f"<title>{escape(self.title)}</title>\n{head}\n" + "\n".join(self.parts) +
                "\n</svg>\n")
