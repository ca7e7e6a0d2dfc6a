"""Hooks of MkDocs: files outside ``docs/`` that pages link to are part of the site.

A page of ``docs/`` lies at the same place of the site; all else lies in ``project/``, at its place
in the checkout. Markdown becomes a page, other files are copied, and links to folders become text.
In a checkout of git the page of mechanisms also says by which commit each of its files was changed.
"""

import posixpath
import re
import subprocess
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)")
_OUTSIDE = "project/"
#: Pages that no page of `docs/` links to, but the navigation does.
_OWN = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


def _in_checkout(uri: str) -> str:
    """The path in the checkout of a file of the site."""
    return uri.removeprefix(_OUTSIDE) if uri.startswith(_OUTSIDE) else f"docs/{uri}"


def _in_site(path: str) -> str:
    return path.removeprefix("docs/") if path.startswith("docs/") else _OUTSIDE + path


def _shown(path: str) -> bool:
    """Whether a path is that of a file which the site may hold; MkDocs leaves hidden ones out."""
    return (_ROOT / path).is_file() and not re.search(r"(^|/)\.", path)


def _linked(uri: str, text: str) -> list[str]:
    """Paths in the checkout that a page links to."""
    folder = posixpath.dirname(_in_checkout(uri))
    return [posixpath.normpath(posixpath.join(folder, link)) for _, link, _ in _LINK.findall(text)]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to, and what is linked from there."""
    known = {file.src_uri for file in files}
    waiting = [_OUTSIDE + name for name in _OWN]
    waiting += [uri for uri in known if uri.endswith(".md")]
    while waiting:
        uri = waiting.pop()
        path = _ROOT / _in_checkout(uri)
        if uri not in known:
            files.append(File.generated(config, uri, abs_src_path=str(path)))
            known.add(uri)
        if uri.endswith(".md"):
            linked = _linked(uri, path.read_text(encoding="utf-8"))
            there = (_in_site(one) for one in linked if _shown(one))
            waiting += [one for one in there if one not in known]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to where their targets lie in the site."""
    uri = page.file.src_uri

    def moved(link: re.Match[str]) -> str:
        text, _, anchor = link.groups()
        (path,) = _linked(uri, link.group())
        if not _shown(path):
            return text
        place = posixpath.relpath(_in_site(path), posixpath.dirname(uri) or ".")
        return f"[{text}]({place}{anchor or ''})"

    if uri == "mechanisms.md":
        markdown += _commits(sorted({path for path in _linked(uri, markdown) if _shown(path)}))
    return _LINK.sub(moved, markdown)


def _commits(paths: list[str]) -> str:
    """The last commit of each file, as a section of a page; nothing without the whole history."""
    if _git("rev-parse", "--is-shallow-repository") != "false":
        return ""
    commits = {path: _git("log", "-1", "--format=%h, %cs: %s", "--", path) for path in paths}
    rows = [f"| `{path}` | {text.replace('|', '/')} |" for path, text in commits.items() if text]
    table = "\n".join(["| file | last changed by |", "|---|---|", *rows])
    return f"\n\n## Commits\n\n{table}\n" if rows else ""


def _git(*words: str) -> str:
    """What git says of the checkout; nothing where there is no git, or no checkout of it."""
    command = ["git", *words]
    try:
        return subprocess.run(
            command, cwd=_ROOT, capture_output=True, text=True, check=False
        ).stdout.strip()
    except FileNotFoundError:
        return ""
