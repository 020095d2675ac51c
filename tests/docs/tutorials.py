"""Tutorials, run as a reader follows them; `python -m tests.docs.tutorials` writes what they print into their pages.

The fences of a page are taken in their order. A Python or TOML fence that begins with `# NAME.py` or `# NAME.toml`
is a file; other Python runs in one namespace. Of a `sh` fence, a line `export NAME=VALUE` sets a variable, and other
lines run by the shell, but for plain commands of `tapestry`, the first lines of which `head` may take: these run here,
which saves loading the program again. A `text` fence behind a Python or `sh` fence is what that printed; `…` stands
for any text in a line, and for any lines where it is one by itself. A `text` fence behind prose is not checked.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tapestry.service.cli import main as tapestry
from tests.docs.generated import ROOT

FOLDER = ROOT / "docs" / "tutorials"
PAGES = ("vit.md", "language-model.md", "mesh.md", "rule.md")
IMAGES = ROOT / "docs" / "images"
# The pictures that a page writes by itself, and the files that it writes.
PICTURES = {"rule.md": {"tutorial-rule-before.svg": "before.svg", "tutorial-rule-after.svg": "after.svg"}}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")
EXPORT = re.compile(r"export (\w+)=(.*)")
SHELL = {"|", "||", ">"}
ANY = "…"
# What differs from one execution to the next: ids of runs, and measured seconds.
VARIABLE = (
    (re.compile(r"\brun [0-9a-f]{12}\b"), f"run {ANY}"),
    (re.compile(r"\bin \d+\.\d s\b"), f"in {ANY} s"),
)


@dataclass(frozen=True)
class Fence:
    """A fence of a page: its language, its text, and where that lies in the page."""

    language: str
    text: str
    span: tuple[int, int]
    follows: bool = False

    @property
    def file(self) -> str | None:
        """The name of the file that this fence is, if it is one."""
        found = FILE.match(self.text) if self.language in ("python", "toml") else None
        return found and found[1]


@dataclass
class Printed:
    """The output of a fence, and the fence that should say so, if there is one."""

    source: Fence
    text: str
    expected: Fence | None = None


@dataclass
class Reader:
    """Someone who follows a page in a folder of their own."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "tutorial"})

    def follow(self, page: str) -> Iterator[Printed]:
        """Run the fences of a page in their order; yield what each prints.

        Raises:
            RuntimeError: a command failed.
        """
        fences = fences_of(page)
        for fence, behind in zip(fences, [*fences[1:], None], strict=True):
            expected = behind if behind and behind.language == "text" and behind.follows else None
            if fence.file:
                (self.folder / fence.file).write_text(fence.text)
            elif fence.language in ("python", "sh"):
                run = self.python if fence.language == "python" else self.shell
                yield Printed(fence, run(fence.text), expected)

    def python(self, text: str) -> str:
        """Run Python in the namespace of the page."""
        with self._here(), contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(text, "tutorial", "exec"), self.namespace)
        return out.getvalue()

    def shell(self, text: str) -> str:
        """Run the commands of a fence."""
        out = []
        for line in text.replace("\\\n", " ").splitlines():
            exported = EXPORT.fullmatch(line)
            if exported:
                value = exported[2].replace("$PWD", str(self.folder))
                for name, now in self._variables().items():
                    value = value.replace(f"${name}", now)
                self.environment[exported[1]] = value
            else:
                out.append(self.command(line))
        return "".join(out)

    def command(self, line: str) -> str:
        """Run one command: here, where it is one of tapestry's in an unchanged environment and without a pipe."""
        plain, _, most = line.partition(" | head -n ")
        words = shlex.split(plain, comments=True)
        if words[0] == "tapestry" and not self.environment and not SHELL & set(words):
            with self._here(), contextlib.redirect_stdout(io.StringIO()) as out:
                code = tapestry(words[1:])
            printed = "".join(out.getvalue().splitlines(keepends=True)[: int(most or sys.maxsize)])
        else:
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", line],
                cwd=self.folder,
                env=self._variables(),
                capture_output=True,
                text=True,
            )
            # A command whose output `head` does not read to its end gets SIGPIPE.
            code, printed = done.returncode * (done.returncode != 128 + signal.SIGPIPE), done.stdout
            if code:
                raise RuntimeError(f"{line}: exit code {code}: {done.stderr}")
        if code:
            raise RuntimeError(f"{line}: exit code {code}: {printed}")
        return printed

    def _variables(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"PATH": path, "TAPESTRY_HOME": str(self.folder), "OMP_NUM_THREADS": "1"}
        return {**os.environ, "PYTHONPATH": str(ROOT), **own, **self.environment}

    @contextlib.contextmanager
    def _here(self) -> Iterator[None]:
        """Work in the folder, with its database and its modules, for a while."""
        before, path, home = Path.cwd(), list(sys.path), os.environ.get("TAPESTRY_HOME")
        modules = set(sys.modules)
        os.chdir(self.folder)
        sys.path.insert(0, str(self.folder))
        os.environ["TAPESTRY_HOME"] = str(self.folder)
        try:
            yield
        finally:
            os.chdir(before)
            sys.path[:] = path
            for name in sys.modules.keys() - modules:
                if str(getattr(sys.modules[name], "__file__", None)).startswith(str(self.folder)):
                    del sys.modules[name]
            os.environ.pop("TAPESTRY_HOME")
            if home is not None:
                os.environ["TAPESTRY_HOME"] = home


def fences_of(page: str) -> list[Fence]:
    """Return the fences of a page, each with whether only a blank line is between it and the one before."""
    found = [Fence(m[1], m[2], m.span(2)) for m in FENCE.finditer(page)]
    ends = [0, *(fence.span[1] + len("```\n") for fence in found)]
    starts = [fence.span[0] - len(f"```{fence.language}\n") for fence in found]
    return [
        replace(fence, follows=end > 0 and not page[end:start].strip())
        for fence, start, end in zip(found, starts, ends, strict=False)
    ]


def masked(text: str) -> str:
    """Return what was printed with `…` for what differs from one execution to the next, and no spaces at line ends."""
    for pattern, instead in VARIABLE:
        text = pattern.sub(instead, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def agrees(expected: str, printed: str) -> bool:
    """Return whether the text of a page is what was printed, as far as it says so."""
    lines = [
        r"(?:.*\n)*?" if line == ANY else ".*".join(map(re.escape, line.split(ANY))) + r"\n"
        for line in expected.splitlines()
    ]
    return re.fullmatch("".join(lines), masked(printed)) is not None


def rewritten(expected: str, printed: str) -> str:
    """Return what the page should say instead: as many lines before and after a line `…` as it has now."""
    now, lines = expected.splitlines(), masked(printed).splitlines()
    if ANY in now:
        place = now.index(ANY)
        last = len(now) - place - 1
        lines = [*lines[:place], ANY, *lines[len(lines) - last :]]
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """Follow all tutorials, or those that are named, and write what they print into their pages."""
    for name in sys.argv[1:] or PAGES:
        path = FOLDER / name
        page = path.read_text()
        with tempfile.TemporaryDirectory() as folder:
            found = [p for p in Reader(Path(folder)).follow(page) if p.expected]
            for picture, file in PICTURES.get(name, {}).items():
                (IMAGES / picture).write_text((Path(folder) / file).read_text())
        for printed in reversed(found):
            assert printed.expected is not None
            begin, end = printed.expected.span
            if not agrees(printed.expected.text, printed.text):
                page = page[:begin] + rewritten(printed.expected.text, printed.text) + page[end:]
        path.write_text(page)
        sys.stdout.write(f"{path.relative_to(ROOT)}: written\n")


if __name__ == "__main__":
    main()
