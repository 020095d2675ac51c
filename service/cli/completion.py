"""Scripts by which shells complete commands, options and values, derived from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

Names = Mapping[str, Sequence[str]]  # what may stand for a metavar, such as the names of meshes


class CompletedOption(NamedTuple):
    """An option: its last spelling, its help, whether a value follows, and the values that are offered."""

    name: str
    help: str
    has_value: bool
    values: tuple[str, ...]


class Level(NamedTuple):
    """A place on the command line: the words so far, the words that may follow with their help, the options."""

    path: tuple[str, ...]
    words: tuple[tuple[str, str], ...]
    options: tuple[CompletedOption, ...]


def levels(parser: argparse.ArgumentParser, names: Names, path: tuple[str, ...] = ()) -> Iterator[Level]:
    """Yield the places of a command line, the commands before their actions; `names` are offered by destination."""
    words: list[tuple[str, str]] = []
    options, below = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words += [(choice.dest, _line(choice.help)) for choice in action._choices_actions]
            below += [levels(inner, names, (*path, name)) for name, inner in action.choices.items()]
        elif action.help == argparse.SUPPRESS:
            continue
        else:
            values = tuple(map(str, action.choices or names.get(action.dest, ())))
            if action.option_strings:
                has_value = action.nargs != 0
                options.append(
                    CompletedOption(action.option_strings[-1], _line(action.help), has_value, values)
                )
            else:
                words += [(value, _line(action.help)) for value in values]
    yield Level(path, tuple(words), tuple(options))
    for inner_levels in below:
        yield from inner_levels


def _line(text: str | None) -> str:
    """Return a help text without what has a meaning in a quoted word of a shell."""
    return " ".join((text or "").replace("'", "").replace(":", " -").replace("%%", "%").split())


def _cases(places: Sequence[Level], shown: Callable[[str, str], str]) -> Iterator[str]:
    """Yield the branches of a `case` over `path|previous word` and `path|`; `shown` writes a word with its help."""
    for place in places:
        path = " ".join(place.path)
        for option in place.options:
            if option.has_value:
                offered = " ".join(shown(value, "") for value in option.values)
                yield f"        '{path}|{option.name}') offered=({offered});;"
        words = [*place.words, *((option.name, option.help) for option in place.options)]
        yield f"        '{path}|'*) offered=({' '.join(shown(*word) for word in words)});;"


def _path(places: Sequence[Level], words: str) -> str:
    """Return the lines that find out which command the words so far name."""
    paths = "|".join(f"'{' '.join(place.path)}'" for place in places if place.path)
    return (
        f'    for word in {words}; do\n        case "${{at:+$at }}$word" in\n'
        f'            {paths}) at="${{at:+$at }}$word";;\n        esac\n    done\n'
    )


def bash(places: Sequence[Level]) -> str:
    """Write the script for bash."""
    cases = "\n".join(_cases(places, lambda word, _: f"'{word}'"))
    return (
        '_tapestry() {\n    local at="" word cur="${COMP_WORDS[COMP_CWORD]}" offered=()\n'
        + _path(places, '"${COMP_WORDS[@]:1:COMP_CWORD-1}"')
        + f'    case "$at|${{COMP_WORDS[COMP_CWORD-1]}}" in\n{cases}\n    esac\n'
        + '    mapfile -t COMPREPLY < <(compgen -W "${offered[*]}" -- "$cur")\n}\n'
        + "complete -o default -F _tapestry tapestry\n"
    )


def zsh(places: Sequence[Level]) -> str:
    """Write the script for zsh."""
    cases = "\n".join(_cases(places, lambda word, note: f"'{word}:{note}'" if note else f"'{word}'"))
    return (
        "#compdef tapestry\n_tapestry() {\n    local at='' word\n    local -a offered\n"
        + _path(places, '"${(@)words[2,CURRENT-1]}"')
        + f'    case "$at|${{words[CURRENT-1]}}" in\n{cases}\n    esac\n'
        + "    (( $#offered )) && _describe -V tapestry offered\n    _files\n}\ncompdef _tapestry tapestry\n"
    )


def fish(places: Sequence[Level]) -> str:
    """Write the script for fish."""
    paths = " ".join(f"'{' '.join(place.path)}'" for place in places if place.path)
    lines = [
        "function __tapestry_at",
        "    set -l at",
        "    for word in (commandline -opc)[2..-1]",
        f'        contains -- (string join -- " " $at $word) {paths}; and set -a at $word',
        "    end",
        '    test "$at" = "$argv"',
        "end",
    ]
    for place in places:
        condition = f"complete -c tapestry -n '__tapestry_at {' '.join(place.path)}'"
        lines += [f"{condition} -f"] if place.words else []
        lines += [f"{condition} -a '{word}' -d '{note}'" for word, note in place.words]
        for name, note, has_value, values in place.options:
            offered = f" -r -a '{' '.join(values)}'" if values else " -r" if has_value else ""
            lines.append(f"{condition} -l {name.removeprefix('--')}{offered} -d '{note}'")
    return "\n".join(lines) + "\n"


WRITERS: Mapping[str, Callable[[Sequence[Level]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
