"""Tests the page that draws a trace, in Chromium where that is installed:
trace_page_test.py PATH-OF-WICK."""

import functools
import html.parser
import json
import pathlib
import re
import sys
import unittest

from browser import browse, in_browser
from mnist import write_images
from png import colors
from programs import InFolder, run_program

WICK = str(pathlib.Path(sys.argv.pop(1)).resolve())
run = functools.partial(run_program, WICK)

OWNED = "document.title='owned'"
HOSTILE = [f"</script><script>{OWNED}</script>", f"<!--<script>{OWNED}", "__proto__",
           f"\"'><img src=x onerror=\"{OWNED}\">", "a\x00\x1b[31m\u202eb", "&lt;b&gt;", ""]


class Dom(html.parser.HTMLParser):
    """The tags, the attributes of the canvas, the rows of the tables and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.canvas, self.tables, self.text = [], {}, {}, ""
        self.script, self.rows, self.cell = None, None, False
        self.data = ""  # the trace
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        if tag == "canvas":
            self.canvas = attributes
        elif tag in ("script", "style"):
            self.script = attributes.get("id", "")
        elif tag == "tbody":
            self.rows = self.tables.setdefault(attributes["id"], [])
        elif tag == "tr" and self.rows is not None:
            self.rows.append([])
        self.cell = tag == "td"
        if self.cell:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self.script = None
        elif tag == "td":
            self.cell = False
        elif tag == "tbody":
            self.rows = None

    def handle_data(self, data):
        if self.script is None:
            self.text += data
            if self.cell:
                self.rows[-1][-1] += data
        elif self.script == "trace":
            self.data += data


def slice_of(name, start, length, rank=0, thread=0, **more):
    return {"ph": "X", "name": name, "ts": start, "dur": length, "pid": rank, "tid": thread,
            "cat": "op", **more}


class TracePage(InFolder):
    program = WICK

    def draw(self, events):
        """A page of these events."""
        trace = self.folder / "<b>trace.json"
        trace.write_text(json.dumps({"traceEvents": events}))
        page = self.folder / "page.html"
        done = run("profile", "--draw", trace, "--page", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"page: {page}", done.stdout)
        return page

    def dom(self, page, sought=""):
        """What the page is once it is drawn, without an error."""
        text, said = browse(page, "--dump-dom", sought=sought)
        self.assertNotIn("CONSOLE", said)
        return Dom(text)

    def two_ranks(self):
        """The page and the events of a short run of two ranks."""
        write_images(self.folder)
        trace, page = self.folder / "trace.json", self.folder / "trace.html"
        done = run("launch", "--ranks", "2", "--", "profile", "--model", "mlp", "--data", "mnist",
                   "--data-dir", self.folder, "--threads", "1", "--batch-size", "16", "--steps",
                   "4", "--skip-steps", "2", "--device", "cpu", "--memory", "--trace", trace,
                   "--page", page)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return page, json.loads(trace.read_text())["traceEvents"]

    def hostile_events(self):
        events = [{"ph": "M", "name": "process_name", "pid": 0, "tid": 0,
                   "args": {"name": HOSTILE[0]}},
                  {"ph": "C", "name": HOSTILE[3], "ts": 1, "pid": 0, "tid": 0,
                   "args": {"value": 3}}]
        for i, name in enumerate(HOSTILE):
            events.append(slice_of(name, 10 * i, 9, cat=name, args={name: name, "n": {"a": name}}))
        return events

    def test_names_stay_in_the_data(self):
        page = self.draw(self.hostile_events())
        text = page.read_text()
        dom = Dom(text)
        self.assertEqual(dom.tags.count("script"), 3)
        self.assertEqual(dom.tags.count("img"), 0)
        self.assertNotIn("<", dom.data)
        self.assertEqual(json.loads(dom.data)["traceEvents"], self.hostile_events())
        self.assertIn("default-src &#39;none&#39;; script-src &#39;sha256-", text)
        self.assertIsNone(re.search(r"""(src|href)=["'](?!data:|#)""", text.replace(OWNED, "")
                                    .split('<script type="application/json"')[0]))

    def test_refuses_what_is_no_trace(self):
        trace = self.folder / "trace.json"
        for text in ["", "{", '{"traceEvents": 3}', "3"]:
            trace.write_text(text)
            self.fails(1, "not a trace in Chrome's format", "profile", "--draw", trace, "--page",
                       self.folder / "page.html")
        self.assertFalse((self.folder / "page.html").exists())
        self.fails(2, "--page", "profile", "--draw", trace)

    def test_page_alone_leaves_no_trace(self):
        write_images(self.folder)
        page = self.folder / "page.html"
        before = set(self.folder.iterdir())
        done = run("profile", "--model", "mlp", "--data", "mnist", "--data-dir", self.folder,
                   "--steps", "1", "--skip-steps", "0", "--device", "cpu", "--page", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(self.folder.iterdir()) - before, {page})

    @in_browser
    def test_draws_a_run_of_two_ranks(self):
        page, events = self.two_ranks()
        slices = [event for event in events if event["ph"] == "X"]
        dom = self.dom(page)
        self.assertEqual(int(dom.canvas["data-slices"]), len(slices))
        self.assertEqual(int(dom.canvas["data-lanes"]),
                         len({(event["pid"], event["tid"]) for event in slices}))
        self.assertEqual(int(dom.canvas["data-arrows"]),
                         sum(event["ph"] == "f" for event in events))
        self.assertEqual(int(dom.canvas["data-counters"]),
                         len({(event["pid"], event["name"]) for event in events
                              if event["ph"] == "C"}))
        self.assertGreater(int(dom.canvas["data-drawn"]), 100)
        calls = {row[0]: int(row[1]) for row in dom.tables["names"]}
        self.assertEqual(calls["linear"], sum(event["name"] == "linear" for event in slices))
        numbers = {event["args"]["Sequence number"] for event in slices
                   if event["cat"] == "collective" and event["name"] == "all_reduce"}
        reduced = [row for row in dom.tables["collectives"] if row[0].startswith("all_reduce #")]
        self.assertEqual({int(row[0].split("#")[1]) for row in reduced}, numbers)
        self.assertGreaterEqual(len(numbers), 4)
        for row in reduced:
            self.assertEqual(row[1], "2")
            self.assertNotEqual(row[4], "none", "one collective at two times")

    @in_browser
    def test_is_seen_in_light_and_dark(self):
        page, _ = self.two_ranks()
        seen = {}
        for mode in ("light", "dark"):
            picture = self.folder / f"{mode}.png"
            browse(page, f"--screenshot={picture}", dark=mode == "dark")
            seen[mode] = colors(picture.read_bytes())
            self.assertGreater(len(seen[mode]), 20)
        background = {mode: max(found, key=found.get) for mode, found in seen.items()}
        self.assertGreater(min(background["light"][:3]), 200)
        self.assertLess(max(background["dark"][:3]), 60)

    @in_browser
    def test_nests_by_time_and_names_harm_nothing(self):
        dom = self.dom(self.draw(self.hostile_events()))
        self.assertNotIn("img", dom.tags)
        self.assertEqual(dom.tags.count("script"), 3)
        self.assertNotIn("owned</title>", dom.text)
        self.assertEqual({row[0] for row in dom.tables["names"]}, {
            *HOSTILE[:4], "a\\u0000\\u001b[31m\\u202eb", *HOSTILE[5:]})
        nested = [slice_of("outer", 0, 100), slice_of("inner", 10, 30), slice_of("inner", 40, 30),
                  slice_of("leaf", 45, 5.001), slice_of("leaf", 50, 5)]
        dom = self.dom(self.draw(nested))
        self.assertEqual({row[0]: row[2:4] for row in dom.tables["names"]},
                         {"outer": ["40 µs", "100 µs"], "inner": ["50 µs", "60 µs"],
                          "leaf": ["10 µs", "10 µs"]})

    @in_browser
    def test_shows_what_is_sought(self):
        arrow = {"cat": "launch", "id": 7, "name": "launch", "pid": 0}
        events = [slice_of("outer", 0, 1e6), *(slice_of("other", 100 * i, 50) for i in range(900)),
                  slice_of("Sought", 5e5, 10, args={"bytes": 12}),
                  {"ph": "s", "ts": 5e5, "tid": 0, **arrow},
                  slice_of("kernel", 6e5, 10, thread=1),
                  {"ph": "f", "ts": 6e5, "tid": 1, "bp": "e", **arrow}]
        page = self.draw(events)
        every = self.dom(page)
        found = self.dom(page, "#sought")
        self.assertIn("1 of 1", found.text)
        self.assertRegex(found.text, r"bytes\s*12")
        self.assertRegex(found.text, r"leads to\s*kernel")
        self.assertLess(int(found.canvas["data-drawn"]), int(every.canvas["data-drawn"]) / 10)
        self.assertRegex(found.text, r"40 µs of 1 s")

    @in_browser
    def test_draws_what_has_nothing_in_it(self):
        dom = self.dom(self.draw([]))
        self.assertEqual(dom.canvas["data-slices"], "0")

    @in_browser
    def test_draws_a_large_trace(self):
        events = [slice_of(f"op{i % 40}", 10 * (i // 2), 9 - 5 * (i % 2), rank=rank)
                  for rank in range(2) for i in range(10000)]
        dom = self.dom(self.draw(events))
        self.assertEqual(int(dom.canvas["data-slices"]), 20000)
        # As many as there are pixels in a row, not as many as there are.
        self.assertLess(int(dom.canvas["data-drawn"]), 4 * 900)


if __name__ == "__main__":
    unittest.main()
