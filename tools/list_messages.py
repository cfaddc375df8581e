"""List the messages of the package: errors, warnings, help of the command line, other texts.

Each is shown with its file and line, and a field of an f-string as its name in braces. With
`--hard` only those are listed that `check_words` finds hard to read: long sentences, banned words.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from check_words import Page

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("error", "warning", "help", "text")
_HELP = {"help", "description", "epilog"}
_PROSE = re.compile(r"[a-z]\W*\s\W*[a-z]")  # two words
_LINES = 3  # longer texts are docstrings, styles and code
_PLACES_OF_CODE = ("gpukfl/_accel/", "gpukfl/datasets/")


@dataclass(frozen=True, order=True)
class Message:
    """A text that users may read.

    Attributes
    ----------
    kind : {"error", "warning", "help", "text"}
        Texts are what is passed on before it is raised, issued, reported or drawn.
    path : str
        Beside the repository's root.
    line : int
        Where the text begins.
    text : str
        With fields as `{name}`.
    """

    kind: str
    path: str
    line: int
    text: str

    @property
    def hard(self) -> list[str]:
        """The sentences that are too long or have a banned word."""
        # What is passed on may be a part of a sentence, which may begin with any word
        text = re.sub(r"\{[^{}]*\}", "X", self.text)
        page = Page.of(self.path, f"… {text}" if self.kind == "text" else text)
        return list(dict.fromkeys([*page.long, *page.banned]))


def list_messages(path: Path, /) -> Iterator[Message]:
    """Yield the messages of a module, in the order of its lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = path.relative_to(ROOT).as_posix()
    return (
        Message(kind, name, node.lineno, _text(node))
        for kind, node in _texts(tree, _Uses(tree), "text")
        if _PROSE.search(_text(node)) and _text(node).count("\n") < _LINES
    )


class _Uses:
    """Which names of a module or function are raised, and which are warned of."""

    def __init__(self, tree: ast.AST) -> None:
        nodes = list(ast.walk(tree))
        raised = [node for node in nodes if isinstance(node, ast.Raise)]
        self.error = {one for node in raised for one in _names(node)}
        self.warning = {one for node in nodes if _is_warning(node) for one in _names(node)}


def _texts(node: ast.AST, uses: _Uses, kind: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield the strings under a node, each with its kind: that of the nearest node that has one."""
    if isinstance(node, ast.JoinedStr | ast.Constant):
        if isinstance(node, ast.JoinedStr) or _is_string(node):
            yield kind, node
        return
    if isinstance(node, ast.FunctionDef):
        uses = _Uses(node)
    elif isinstance(node, ast.Raise):
        kind = "error"
    elif _is_warning(node):
        kind = "warning"
    elif isinstance(node, ast.keyword) and node.arg in _HELP:
        kind = "help"
    elif isinstance(node, ast.Assign | ast.AugAssign) and kind == "text":
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        named = {one for target in targets for one in _names(target)}
        kind = "warning" if named & uses.warning else "error" if named & uses.error else kind
    # A statement that is a string alone is a docstring; annotations are no prose
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            alone = isinstance(child, ast.Expr) and _is_string(child.value)
            if isinstance(child, ast.AST) and not alone and name not in {"annotation", "returns"}:
                yield from _texts(child, uses, kind)


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_warning(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    return getattr(called, "id", getattr(called, "attr", "")) == "warn"


def _text(node: ast.expr) -> str:
    """Return a string, or an f-string with the names of its fields."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    if isinstance(node, ast.FormattedValue):
        return f"{{{_field(node.value)}}}"
    return ""


def _field(node: ast.expr) -> str:
    """Return the last name of an expression: `x` of `a.x`, `f` of `f(a)`."""
    if isinstance(node, ast.Call | ast.Subscript):
        return _field(node.func if isinstance(node, ast.Call) else node.value)
    return str(getattr(node, "id", getattr(node, "attr", "...")))


def main() -> int:
    """Print the messages by kind; return 1 where `--hard` finds some."""
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line.add_argument("--hard", action="store_true", help="only those that are hard to read")
    line.add_argument("--kind", choices=KINDS, help="only those of one kind")
    line.add_argument("paths", nargs="*", type=Path, help="modules or folders (default: gpukfl)")
    args = line.parse_args()
    folders = [path.resolve() for path in args.paths] or [ROOT / "gpukfl"]
    files = [one for path in folders for one in (path.rglob("*.py") if path.is_dir() else [path])]
    found = [
        message
        for path in files
        if not path.relative_to(ROOT).as_posix().startswith(_PLACES_OF_CODE)
        for message in list_messages(path)
        if message.kind == (args.kind or message.kind) and (message.hard or not args.hard)
    ]
    for kind in KINDS:
        for one in sorted(message for message in found if message.kind == kind):
            print(f"{kind} {one.path}:{one.line}: {' '.join(one.text.split())}")
    print(f"{len(found)} messages", "that are hard to read" if args.hard else "")
    return int(args.hard and bool(found))


if __name__ == "__main__":
    sys.exit(main())
