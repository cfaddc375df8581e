"""Links inside the repository lead to files and headings that are there."""

import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if "_generated" not in p.parts),
]
FENCE = re.compile(r"^(`{3,}).*?^\1$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]*)\)")


@functools.cache
def text_of(path):
    """Give a page without its blocks of code, in which brackets are no links."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


@functools.cache
def anchors(path):
    """Give headings as GitHub and the documentation name them."""
    found = set()
    for title in re.findall(r"^#+ +(.*)$", text_of(path), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-"))
    return found


def broken(page, text):
    """Give links of a page with this text that lead nowhere."""
    for target in LINK.findall(text):
        path, _, anchor = target.partition("#")
        if re.match(r"\w+:", target) or not target:
            continue
        file = (page.parent / path).resolve() if path else page
        there = file.is_relative_to(ROOT) and file.exists()
        if not there or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            yield target


def test_links_lead_somewhere():
    names = {path.name for path in PAGES}
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "index.md"} <= names
    found = {str(page.relative_to(ROOT)): list(broken(page, text_of(page))) for page in PAGES}
    assert {page: links for page, links in found.items() if links} == {}


def test_broken_links_are_found():
    text = "[a](nowhere.md) [b](index.md#no-heading) [c](index.md#install) [d](https://x.org)"
    found = list(broken(ROOT / "docs" / "index.md", text))
    assert found == ["nowhere.md", "index.md#no-heading"]
