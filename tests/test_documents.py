"""What documents become: small inputs and the exact passages; no input crashes a reader or is lost silently."""

import os
import random
import re
import unicodedata
import unittest
from collections.abc import Iterable

from retrieval import (
    MOST_BYTES,
    MOST_WORDS,
    Build,
    BuildFault,
    DocumentRefused,
    DocumentSkipped,
    Passage,
    cleaned,
    load_snapshot,
)
from tests.support import ROOT
from tools import skipped

FUZZED = 400


def built(documents: dict[str, bytes | str], base: str = "", encoding: str = "", keep: Iterable[Passage] = (),
          version: str = "1") -> tuple[list[Passage], Build, list[str]]:
    """The passages of documents by their paths, the closed build, and what it said of them."""
    build = Build(version, base, encoding, ":memory:")
    try:
        notes = []
        for path, document in documents.items():
            notes += build.add(path, document.encode() if isinstance(document, str) else document)
        for passage in keep:
            build.put(passage, kept=True)
        return list(build.passages()), build, notes
    finally:
        build.close()


def as_snapshot(passages: Iterable[Passage]) -> dict[str, object]:
    """The JSON of a snapshot that has these passages."""
    return {"profile": "plain", "passages": [{**p._asdict(), "aliases": list(p.aliases)} for p in passages]}


def texts(document: str, path: str = "a.html") -> dict[str, str]:
    """The texts of one document by their addresses without its path."""
    return {passage.source_id.removeprefix(path): passage.text for passage in built({path: document})[0]}


def titles(document: str, path: str = "a.html") -> list[str]:
    return [passage.title for passage in built({path: document})[0]]


class HtmlTest(unittest.TestCase):
    """Pages, by what a browser would show of them."""

    def test_blocks_separate_and_inline_tags_do_not(self) -> None:
        for markup, text in {
            "<p>Sales <b>rose</b>!</p>": "Sales rose!",
            "<p>one</p><p>two</p>": "one\ntwo",
            "<div>one<div>two</div>three</div>": "one\ntwo\nthree",
            "a<br>b": "a\nb",
            "<ul><li>one<li>two</ul>": "- one\n- two",
            "<table><tr><td>Limit</td><td>45&nbsp;s</td></tr><tr><td>x<td><p>y</p><p>z</p></table>":
                "Limit | 45 s\nx | y z",
            "<p>Write &amp;lt;b&amp;gt; and &lt;i&gt; &#8217; &copy; 5 &lt; 6":
                "Write &lt;b&gt; and <i> \u2019 \xa9 5 < 6",
            "<pre>x\n  y\n</pre>": "x\n  y",
            "<pre>\n<span></span>def f():\n\treturn 1\n\n</pre>after": "def f():\n\treturn 1\nafter",
            "one<script>var z='</p>'</script> two": "one two",
            "one<style>p{}</style><noscript>x</noscript><!-- <p>no</p> --> two": "one two",
            "<p>one<p>two<b>three": "one\ntwothree",
            "<p>a  \n  b\t c</p>": "a b c",
            "5 < 6 and <3": "5 < 6 and <3",
            "<p title='a>b' data-x=\"'>\">text</p>": "text",
            "<div class='admonition note'><p class='admonition-title'>Note</p><p>Mind it.</p></div>": "Note\nMind it.",
            "<P>UPPER</P><SCRIPT>x</SCRIPT><P>case</P>": "UPPER\ncase",
            "&#99999999999999999999;x": "\ufffdx",
            "<p>so<wbr>ft\xad hy\u200bphen</p>": "soft hyphen",
        }.items():
            with self.subTest(markup=markup):
                self.assertEqual("\n".join(texts(markup).values()), text)

    def test_what_is_no_text_of_the_page_is_left_out(self) -> None:
        for markup in (
            "<nav>x</nav>", "<div role=navigation>x</div>", "<div class='sphinxsidebar'><p>x</div>",
            "<footer>x</footer>",
            "<p hidden>x", "<p style='display: none'>x</p>", "<span aria-hidden=true>x</span>",
            "<svg><title>x</title></svg>",
            "<aside>x</aside>", "<div class='toctree-wrapper compound'><ul><li>x</ul></div>",
            "<div class=related>x</div>",
            "<button>x</button>", "<select><option>x</select>", "<textarea>x</textarea>",
            "<a class=headerlink>x</a>",
            "<td class=linenos><pre>x</pre></td>", "<span class='linenos'>x</span>",
            "<div class=menu><div>x</div>x</div>",
            "<nav><div><p>x</div></nav>", "<div hidden><div>x</div>x</div>",
        ):
            with self.subTest(markup=markup):
                self.assertEqual(list(texts(f"<p>before</p>{markup}<p>after</p>").values()), ["before\nafter"])

    def test_a_class_that_only_sounds_like_navigation_hides_nothing(self) -> None:
        for name in ("contents", "has-toc", "with-sidebar", "menuselection", "research", "nav-open", "unhidden"):
            with self.subTest(name=name):
                self.assertEqual(texts(f"<div class='{name}'>text</div>"), {"": "text"})
        self.assertEqual(texts("<body class='search'><p>text"), {"": "text"})

    def test_the_main_part_is_all_there_is_of_a_page_that_has_one(self) -> None:
        for start, end in (("<main>", "</main>"), ("<div class=body role='main'>", "</div>")):
            page = f"<title>T</title><div>x<ul><li>x{start}<div>text</div><p>more{end}<p>x</p></div>x"
            with self.subTest(start=start):
                self.assertEqual((texts(page), titles(page)), ({"": "text\nmore"}, ["T"]))

    def test_a_definition_entry_is_a_passage_and_so_is_one_inside_it(self) -> None:
        page = """<section id="m"><span id="label"></span><h1>Module<a class=headerlink href=#m>x</a></h1><p>About m.
            <dl><dt id="m.A">class <b>A</b>(x)<dt id="m.B"><em>class</em> B()<dt>class C()<dd><p>Own text.
              <div class="versionadded"><p>New in version 3.2.</div>
              <dl><dt id="m.A.f">f(<i>n</i>)</dt><dd>Nested.<dl><dt>Parameters</dt><dd>n - a number</dd></dl></dd></dl>
              <p id="tail">More own text.</dd></dl>
            <p>Text of the section again.</section>"""
        self.assertEqual(texts(page), {
            "#m": "About m.\nText of the section again.",
            "#m.A": "class A(x)\nclass B()\nclass C()\nOwn text.\nNew in version 3.2.\nMore own text.",
            "#m.A.f": "f(n)\nNested.\nParameters\nn - a number"})
        self.assertEqual({p.source_id: p.aliases for p in built({"a.html": page})[0]}, {
            "a.html#m": ("a.html#label",), "a.html#m.A": ("a.html#m.B", "a.html#tail"), "a.html#m.A.f": ()})

    def test_an_anchor_that_was_numbered_is_an_alias_where_there_is_another(self) -> None:
        page = ("<section id=id1><span id=kept></span><h2>Again</h2><p id=id7>text"
                "<dl><dt id=id9>[1]<dd>note</dl></section>")
        (passage,) = built({"a.html": page})[0]
        self.assertEqual((passage.source_id, passage.aliases, passage.text),
                         ("a.html#kept", ("a.html#id1", "a.html#id7", "a.html#id9"), "text\n[1]\nnote"))
        self.assertEqual(texts("<section id=id1><h2>Again</h2>text</section>"), {"#id1": "text"})

    def test_a_section_is_its_own_text_and_a_heading_without_text_points_to_its_first_child(self) -> None:
        page = """<title>Guide</title><section id="top"><h1>Top</h1><section id="a"><h2>A</h2><p>in a
            <section id="b"><h3>B</h3>in b</section>a again</section>
            <div class="section" id="c"><h2>C</h2>in c</div></section>"""
        self.assertEqual(texts(page), {"#a": "in a\na again", "#b": "in b", "#c": "in c"})
        self.assertEqual([(p.title, p.aliases) for p in built({"a.html": page})[0]], [
            ("Guide > Top > A", ("a.html#top",)), ("Guide > Top > A > B", ()), ("Guide > Top > C", ())])

    def test_headings_of_flat_pages_open_passages(self) -> None:
        page = """<title>Flat</title><body><p>Start.</p><a name="one"></a><h2>One</h2><p>first</p>
            <h2 id="two"><a name="old"></a>Two</h2>second<h3>Deeper</h3>third<h3><a name=four>Four</a></h3><p>fourth"""
        self.assertEqual(texts(page), {
            "": "Start.", "#one": "first", "#two": "second", "#two~2": "third", "#four": "fourth"})
        self.assertEqual(titles(page), [
            "Flat", "Flat > Two > Four", "Flat > One", "Flat > Two", "Flat > Two > Deeper"])
        self.assertEqual(texts("<dl><a name=abs></a><dt><p>abs(X)</dt><dd><p>Absolute.</dd>"
                               "<dt><a name=hex></a>hex(X)<dd>Hex.</dl>"),
                         {"#abs": "abs(X)\nAbsolute.", "#hex": "hex(X)\nHex."})

    def test_an_anchor_at_the_end_of_a_paragraph_is_of_what_follows(self) -> None:
        """Where the paragraph is closed or left open, in flat pages and in sections; with text after it, it is not."""
        for markup, expected in {
            "<h2>A</h2><p>in a<a name=b></a><h2>B</h2><p>in b": {"": ("in a", ()), "#b": ("in b", ())},
            "<h2>A</h2><p>in a<a name=b></a></p><h2 id=c>C</h2><p>in c": {"": ("in a", ()), "#c": ("in c", ("#b",))},
            "<h2>A</h2><p>in a<a name=b></a> \n</p><p>in b</p>": {"": ("in a", ()), "#b": ("in b", ())},
            "<h2>A</h2><p>in a<span id=b></span></p><p>more": {"": ("in a\nmore", ("#b",))},
            "<h2>A</h2><p>in <a name=b></a>a</p><p>more": {"": ("in a\nmore", ("#b",))},
            "<h2>A</h2><p><a name=b></a>in a</p><p>more": {"#b": ("in a\nmore", ())},
            "<h2>A<a name=a></a></h2><p>in a": {"#a": ("in a", ())},
            "<h2>A</h2><p>in a <a name=b>b</a><a name=c></a><h2>C</h2><p>in c": {
                "": ("in a b", ("#b",)), "#c": ("in c", ())},
            "<h2>A</h2><p>in a<a name=b></a>": {"": ("in a", ("#b",))},
            "<section id=id2><h2>A</h2><p>in <span id=index-3></span>a</section>": {"#id2": ("in a", ("#index-3",))},
            "<section id=s><h2>S</h2><p>in s<a name=t></a></p><section id=u><h2>U</h2><p>in u</section></section>":
                {"#s": ("in s", ()), "#u": ("in u", ("#t",))},
        }.items():
            with self.subTest(markup=markup):
                found = {p.source_id[6:]: (p.text, tuple(at[6:] for at in p.aliases))
                         for p in built({"a.html": markup})[0]}
                self.assertEqual(found, expected)

    def test_ids_that_stand_twice_are_numbered_and_odd_ones_are_encoded(self) -> None:
        self.assertEqual(list(texts("<h2 id=a>A</h2>1<h2 id=a>B</h2>2<h2 id='a-2'>C</h2>3<h2 id='b c\"~2'>D</h2>4")),
                         ["#a", "#a-2", "#a-2-2", "#b%20c%22%7E2"])
        self.assertEqual(built({"a\u202eb\u200b.txt": "x"})[0][0].source_id, "a%E2%80%AEb%E2%80%8B.txt#L1")

    def test_what_most_pages_repeat_outside_their_own_text_is_left_out(self) -> None:
        pages: dict[str, bytes | str] = {
            f"{n}.html":
            f"<div>Acme docs</div><p>Page {n}</p><section id=s{n}><h2>{n}</h2>New in version 3.2.</section>"
            f"<dl><dt id=d{n}>d{n}</dt><dd>Deprecated.</dd></dl><p>Made by Acme</p>" for n in range(12)}
        held = "\n".join(passage.text for passage in built(pages)[0])
        self.assertNotIn("Acme", held)
        self.assertEqual((held.count("New in version 3.2."), held.count("Deprecated.")), (12, 12))
        few = dict(list(pages.items())[:9])
        self.assertIn("Acme docs", built(few)[0][0].text)

    def test_what_is_lost_behind_an_open_script_is_told(self) -> None:
        self.assertEqual(built({"a.html": "<p>kept<script>lost <p>lost"})[2],
                         ["<script> is never closed: what stands after it is lost"])
        self.assertEqual(built({"a.html": "<p>kept<script>x</script>"})[2], [])


    def test_what_is_lost_behind_an_open_tag_or_comment_is_told(self) -> None:
        for page in ('<p>kept</p><a href="x>lost</a><p>more', "<p>kept</p><!-- lost <p>more", "<p>kept</p><a title=x",
                     "<p>kept</p><!-- <p>lost</p>"):
            with self.subTest(page):
                passages, _, notes = built({"a.html": page})
                self.assertEqual([at.text for at in passages], ["kept"])
                self.assertRegex(" ".join(notes), "is never closed: what stands after it is lost")
        self.assertEqual(built({"a.html": "<p>a < b</p><!-- x --><br><!--><!-- y --!>"})[2], [])
        for tag in ("nav", "aside", "template", "div hidden", 'span aria-hidden="true"', "button"):
            with self.subTest(tag):
                passages, _, notes = built({"a.html": f"<p>kept</p><{tag}>lost<p>more"})
                self.assertEqual([at.text for at in passages], ["kept"])
                self.assertEqual(notes, [f"<{tag.split()[0]}> is never closed and hides the rest"])
        self.assertEqual(built({"a.html": "<p>kept</p><nav><ul><li>x</nav><p>more"})[2], [])

    def test_an_id_of_another_passage_is_no_alias(self) -> None:
        page = '<section id="a"><h1>A</h1><p>one</p></section><section id="a"><h1>A</h1><p>two</p></section>'
        self.assertEqual([(at.source_id, at.aliases) for at in built({"b.html": page})[0]],
                         [("b.html#a", ()), ("b.html#a-2", ())])

class MarkdownTest(unittest.TestCase):
    """Headings of both kinds, and what only looks like one."""

    PAGE = ("---\ntitle: Notes\nlimit: 45\n---\n\nCache\n=====\n\nText one.\n\n"
            "~~~sh\n# not a heading\necho hi\n~~~\n\n- item\n\n"
            "  ```py\n  # also not\n  ```\n\n## Real\n\nText two.\n")

    def test_headings_open_passages_and_fences_hide_them(self) -> None:
        self.assertEqual(texts(self.PAGE, "a.md"), {
            "#cache": "Text one.\n# not a heading\necho hi\n- item\n# also not", "#real": "Text two."})
        self.assertEqual(titles(self.PAGE, "a.md"), ["Notes > Cache", "Notes > Cache > Real"])

    def test_other_ways_of_writing(self) -> None:
        for markdown, found in {
            "---\n\n# A\n\ntext\n\n---\n\n# B\n\nmore": {"#a": "text", "#b": "more"},
            "# A\n```\n# b\n````\n# C\nc": {"#a": "# b", "#c": "c"},
            "# A\n````\n```\n# b\n````\n": {"#a": "```\n# b"},
            "#hashtag\n\n####### seven": {"": "#hashtag\n####### seven"},
            "# A #\none\n# A\ntwo\n# A\nthree": {"#a": "one", "#a-2": "two", "#a-3": "three"},
            "A & `b_c`: [it](x)\n---\ntext": {"#a--b_c-it": "text"},
            "# A {#given}\ntext": {"#given": "text"},
            "# A\n## B\ntext": {"#b": "text"},
            "# A\n- item\n---\nafter": {"#a": "- item\nafter"},
            "# A\n| a | b |\n|---|---|\n| 1 | 2 |": {"#a": "| a | b |\n| 1 | 2 |"},
            "# A\n<!--\n# hidden\n-->\nx <!-- y --> <b>z</b> `<b>` &lt;<br>q": {"#a": "x  z `<b>` < q"},
            "# A\n\n    # code\n\ntext\n> # quoted": {"#a": "    # code\ntext\n> # quoted"},
            "# \u7f13\u5b58\n\u6587\u672c": {"#\u7f13\u5b58": "\u6587\u672c"},
            "one\r\n\r\n# A\r\ntwo\r\n": {"": "one", "#a": "two"},
        }.items():
            with self.subTest(markdown=markdown):
                self.assertEqual(texts(markdown, "a.md"), found)

    def test_a_fence_that_is_never_closed_is_code_to_the_end_and_told(self) -> None:
        passages, _, notes = built({"a.md": "# A\n```\n# b\n\n# c"})
        self.assertEqual([passage.text for passage in passages], ["# b\n\n# c"])
        self.assertEqual(notes, ["a code fence is open to the end"])
        passages, _, notes = built({"a.md": "-\t```\n\t# no\n\t```\n\n# B\n\nt\n"})
        self.assertEqual(([at.title for at in passages], notes), (["", "B"], []))


    def test_a_heading_with_nothing_below_it_is_kept(self) -> None:
        """Neither its first child's, for there is none, nor lost."""
        passages, _, _ = built({"a.md": "---\n\n# A\n\ntext\n\n---\n\n# B\n"})
        self.assertEqual([(at.source_id, at.text) for at in passages], [("a.md#a", "text"), ("a.md#b", "B")])

class PlainTextTest(unittest.TestCase):
    def test_paragraphs_are_passages_under_their_line(self) -> None:
        self.assertEqual(texts("one\ntwo\n\n\nthree\n", "n.txt"), {"#L1": "one\ntwo", "#L5": "three"})
        self.assertEqual(texts("Title\n=====\n\ntext:\n\n  code\n",
        "n.txt"), {"#L1": "Title\n=====\n\ntext:\n\n  code"})

    def test_a_text_is_cleaned_once_before_it_is_hashed(self) -> None:
        raw = ("The gateway doesn\u2019t retry writes. It waits 5\u00a0min and re\u00adsends the "
               "cafe\u0301 order once.\r\nLogs stay local.")
        passages, build, _ = built({"n.txt": raw})
        self.assertEqual(passages[0].text, "The gateway doesn\u2019t retry writes. It waits 5 min and resends the "
                                           "caf\u00e9 order once.\nLogs stay local.")
        self.assertEqual(build.counts["removed"], 1)
        for hidden in "\u200b\u200e\u202e\u2066\ufeff\x07\x9b\U000e0041\U000e0100\u2060\xad":
            self.assertEqual(cleaned(f"a{hidden}b"), ("ab", 1), f"U+{ord(hidden):04X}")
        for kept in ("a\tb\nc", "\U0001f600", "\u0928\u093f", "\ufdfd"):
            self.assertEqual(cleaned(kept), (kept, 0))


class EncodingTest(unittest.TestCase):
    def test_marks_of_byte_order_and_strict_utf_8(self) -> None:
        for data in ("\ufeffcaf\xe9".encode(), "caf\xe9".encode("utf-16"), "\ufeffcaf\xe9".encode("utf-16-be"),
                     "caf\xe9".encode("utf-32"), "\ufeffcaf\xe9".encode("utf-32-be"), "caf\xe9".encode()):
            with self.subTest(data=data):
                self.assertEqual([p.text for p in built({"a.txt": data})[0]], ["caf\xe9"])

    def test_text_is_composed_and_a_long_run_of_marks_in_pieces(self) -> None:
        """In pieces, for putting marks in order takes quadratic time; no piece is lost, nor what stands after it."""
        for text in ("cafe\u0301", "a\u0301\u0323b", "\u1100\u1161\u11a8", "\u2500" * 99 + "e\u0301", "\u2260"):
            with self.subTest(text=text):
                self.assertEqual(cleaned(text)[0], unicodedata.normalize("NFC", text))
        text = cleaned("x" + "\u0315\u0301" * 50_000 + "e\u0301")[0]
        self.assertEqual((len(text), text[0], text[-1]), (100_002, "x", "\xe9"))

    def test_the_encoding_that_is_given_is_for_what_is_not_utf_8(self) -> None:
        passages, *_ = built({"a.txt": b"caf\xe9", "b.txt": "na\xefve".encode()}, encoding="cp1252")
        self.assertEqual([p.text for p in passages], ["caf\xe9", "na\xefve"])
        for name in ("iso2022_jp", "utf-16-le", "shift_jis"):
            with self.subTest(name=name):
                self.assertEqual(built({"a.txt": "\u65e5\u672c".encode(name)}, encoding=name)[0][0].text,
                "\u65e5\u672c")
        for name in ("nonsense", "rot13", "hex"):
            with self.subTest(name=name), self.assertRaisesRegex(BuildFault, "not known"):
                built({}, encoding=name)

    def test_what_cannot_be_read_is_refused_by_reason_and_nothing_of_it_kept(self) -> None:
        for data, reason in {
            b"caf\xe9": "not UTF-8 \\(byte 0xe9 at offset 3\\): .*--encoding",
            b"\x89PNG\r\n\x1a\n\0": "0x89.*it is not text",
            b"a\0b": "U\\+0000 at character 1: it is not text", b"\xff\xfea": "not UTF-16",
            b"x" * (32 * 1024 * 1024 + 1): "at most 33,554,432",
        }.items():
            with self.subTest(reason=reason), self.assertRaisesRegex(DocumentRefused, reason):
                built({"a.txt": data})
        with self.assertRaisesRegex(DocumentRefused, "its name"):
            built({"\udce9.txt": b"x"})
        for path, data, reason in (
            ("a.txt", b"", "empty"), ("a.txt", b" \n\t", "no text"), ("a.html", b"<p></p>", "no text"),
            ("a.md", b"---\ntitle: x\n---\n", "no text"), ("a.html", b"<title>x</title><nav>y</nav>", "no text"),
        ):
            with self.subTest(path=path, data=data), self.assertRaisesRegex(DocumentSkipped, reason):
                built({path: data})

    def test_files_are_documents_by_their_names(self) -> None:
        for path, sphinx, reason in (
            ("a.html", True, ""), ("a.html", False, ""), ("b/A.HTM", False, ""), ("README.md", False, ""),
            ("n.txt", False, ""),
            ("n.txt", True, "tree made by Sphinx"), ("a.png", False, "not HTML"), ("README", False, "not HTML"),
            ("_sources/a.rst.txt", True, "made by Sphinx"), ("x/_modules/a.html", True, "made by Sphinx"),
            ("_static/a.html", False, "made by Sphinx"), ("search.html", True, "search or index"),
            ("search.html", False, ""), ("ref/contrib/search.html", True, ""), ("Search.HTML", True, "search or index"),
            ("genindex-A.html", True, "search or index"), ("genindex.html", False, "search or index"),
            ("py-modindex.html", True, "search or index"), ("research.html", True, ""), ("genindex.md", False, ""),
        ):
            with self.subTest(path=path, sphinx=sphinx):
                (self.assertIn if reason else self.assertEqual)(reason, skipped(path, sphinx))


class BuildTest(unittest.TestCase):
    TREE: dict[str, bytes | str] = {
        "b/x.html": "<h2 id=one>One</h2><p>same</p>", "a.md": "# One\n\nother", "c.html": "<h2 id=uno>One</h2><p>same",
        "\xe9 n.txt": "na\xefve"}

    def test_the_order_of_documents_does_not_matter_and_passages_come_sorted(self) -> None:
        passages, build, _ = built(self.TREE)
        self.assertEqual(built(dict(reversed(self.TREE.items())))[0], passages)
        self.assertEqual([p.source_id for p in passages], ["a.md#one", "b/x.html#one", "\xe9%20n.txt#L1"])
        self.assertEqual(dict(build.counts), {"passages": 3, "duplicates": 1, "bytes": 15, "removed": 0})
        self.assertEqual(passages[1].aliases, ("c.html#uno",))

    def test_what_is_built_is_a_snapshot_that_loads(self) -> None:
        built_in = built(self.TREE, "https://docs.example/v1/")[0]
        self.assertEqual([p.url for p in built_in], [
            "https://docs.example/v1/a.md#one", "https://docs.example/v1/b/x.html#one",
            "https://docs.example/v1/%C3%A9%20n.txt#L1"])
        self.assertEqual(load_snapshot(as_snapshot(built_in)).passages, tuple(built_in))
        self.assertEqual(built({"a b.md": "# A\ntext"})[0][0].url, "file:a%20b.md#a")

    def test_passages_of_other_versions_are_kept_as_they_are(self) -> None:
        before = built(self.TREE, version="1")[0]
        after = built(self.TREE, keep=before, version="1.1")[0]
        self.assertEqual([p for p in after if p.version == "1"], before)
        self.assertEqual([p.version for p in after], ["1"] * 3 + ["1.1"] * 3)

    def test_two_paths_that_give_one_id_stop_the_build(self) -> None:
        for one, other in (("e\u0301.md", "\xe9.md"), ("a.md", "a.md")):
            with self.subTest(one=one), self.assertRaisesRegex(BuildFault, "same source_id"):
                built_twice = [(one, b"# A\ntext"), (other, b"# B\nmore")]
                build = Build("1", "", "", ":memory:")
                self.addCleanup(build.close)
                for path, data in built_twice:
                    build.add(path, data)

    def test_a_staging_file_that_cannot_be_made_is_a_fault_with_its_path(self) -> None:
        with self.assertRaisesRegex(BuildFault, "no-such-folder.*unable to open"):
            Build("1", "", "", os.path.join(ROOT, "no-such-folder", "staging"))

    def test_long_texts_are_cut_at_the_widest_border_that_fits(self) -> None:
        sentences = "".join(f"Sentence {n} of these has seven words. " for n in range(90))
        for path, document, ends in (
            ("a.html", f"<h2 id=a>A</h2><p>{sentences[:790]}.<p>{sentences[790:1500]}.", r"\."),
            ("a.html", f"<h2 id=a>A</h2><p>{sentences}", r"words\."),
            ("a.html", "<h2 id=a>A</h2><pre>" + "".join(f"x = {n}  # and a comment\n" for n in range(200)), "comment"),
            ("a.html", "<h2 id=a>A</h2><p>" + "".join(f"word{n} " for n in range(900)), "[0-9]"),
            ("a.html", "<h2 id=a>A</h2><p>" + "".join(f"w{n}" for n in range(2000)), "[w0-9]"),
            ("a.html", "<h2 id=a>A</h2><p>" + "".join(f"\u7f13{n}\u5b58\u7684\u3002" for n in range(900)), "\u3002"),
            ("a.md", "# A\n" + "".join(f"- item {n} of a list\n" for n in range(300)), "list"),
        ):
            passages = built({path: document})[0]
            with self.subTest(document=document[:40]):
                self.assertGreater(len(passages), 1)
                numbers = sorted((int(p.source_id.partition("~")[2] or 1), p.text) for p in passages)
                self.assertEqual([number for number, _ in numbers], list(range(1, len(passages) + 1)))
                self.assertEqual({p.url for p in passages}, {f"file:{path}#a"})
                for _, text in numbers:
                    self.assertRegex(text, ends + r"\Z")
                    self.assertLessEqual(len(text.split()), MOST_WORDS)
                    self.assertLessEqual(len(text.encode()), MOST_BYTES)
                whole = re.sub("<[^>]*>|# A\n", "", document.replace("A</h2>", ""))
                self.assertEqual("".join("".join(text.split()) for _, text in numbers), "".join(whole.split()))

    def test_ids_stay_short_and_safe_whatever_the_names(self) -> None:
        path = "deep/" * 60 + "a.html"
        passages = built({path: "<h2 id='" + "x" * 500 + "'>A</h2>" + "word " * 500, "q'\".md": "# A\nb"})[0]
        load_snapshot(as_snapshot(passages))


class FuzzTest(unittest.TestCase):
    """Whatever comes in, passages of the right form come out, or a reason."""

    PIECES = (
        "<section id=a>", "</section>", "<h2>", "</h2>", "<h1 id=b>", "<dl>", "<dt id=c>", "<dt>", "<dd>",
        "</dd>", "</dl>", "<p>",
        "<div hidden>", "</div>", "<main>", "</main>", "<table>", "<tr>", "<td>", "</table>", "<pre>",
        "</pre>", "<ul>", "<li>",
        "<a name=n>", "<br>", "<script>", "</script>", "<!--", "-->", "<nav>", "</nav>", "text ", "more\n",
        "&lt;", "&#1;", "&#x110000;",
        "&", "<", ">", "'", '"', "=", "\u200b", "\xa0", "e\u0301", "\U0001f600", "# A\n", "\n---\n",
        "```\n", "- x\n", "| a |\n",
        "    code\n", "\r\n", "<title>T</title>", "<svg/>", "<b", "<a href='", "</", "<?php ?>",
        "<![CDATA[x]]>", "<!DOCTYPE html>", "\t",
    )

    def check(self, documents: dict[str, bytes | str]) -> None:
        try:
            passages, _, _ = built(documents)
        except (DocumentRefused, DocumentSkipped):
            return
        load_snapshot(as_snapshot(passages))
        for passage in passages:
            self.assertLessEqual(len(passage.text.encode()), MOST_BYTES)
            self.assertLessEqual(len(passage.text.split()), MOST_WORDS)
            self.assertEqual(cleaned(passage.text), (passage.text, 0))

    def test_mixtures_of_markup(self) -> None:
        rng = random.Random(4)
        for _ in range(FUZZED):
            made = "".join(rng.choices(self.PIECES, k=rng.randint(1, 120)))
            for path in ("a.html", "a.md", "a.txt"):
                with self.subTest(path=path, made=made):
                    self.check({path: made})

    def test_bytes_and_documents_cut_anywhere(self) -> None:
        rng = random.Random(5)
        with open(os.path.join(ROOT, "README.md"), "rb") as file:
            page = file.read()[:3000]
        for _ in range(FUZZED // 8):
            spoiled = bytearray(page[:rng.randrange(len(page))])
            for _ in range(rng.randint(0, 4)):
                spoiled[rng.randrange(len(spoiled) or 1):][:1] = bytes([rng.randrange(256)])
            for path in ("a.html", "a.md", "a.txt"):
                self.check({path: bytes(spoiled)})
                self.check({path: rng.randbytes(200)})

    def test_a_thousand_deep(self) -> None:
        for start, end in (("<div>", "</div>"), ("<section id=x>", "</section>"), ("<dl><dt id=x>y<dd>",
        "</dd></dl>"), ("<ul><li>", ""),
                           ("<table><tr><td>", ""), ("<b>", "</b>"), ("<nav>", ""), ("> ", ""), ("- ", ""),
                           ("<main>", "")):
            for path in ("a.html", "a.md", "a.txt"):
                with self.subTest(start=start, path=path):
                    self.check({path: f"one {start * 1000}text{end * 1000} two"})


if __name__ == "__main__":
    unittest.main()
