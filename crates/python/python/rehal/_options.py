"""The options of verbs as arguments of functions, and what the tool says about its flags as what Python says
about these."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ._flags import VERBS

if TYPE_CHECKING:
    from re import Match

F = TypeVar("F", bound="Callable[..., Any]")

#: The functions that run a verb under another name.
_FUNCTIONS = {"run": "replay", "run-module": "run"}

#: The arguments that are flags under another name, by verb.
_ARGUMENTS = {
    "compare": {"with": "candidate"},
    "run": {"replay_order": "order"},
    "substitute": {"executable": "executables"},
}

#: The flags that functions set from arguments of their own.
_OWN = {
    *("check", "device", "executable", "function", "input", "module", "output", "parameters", "recover"),
    *("replay_order", "space", "with"),
}

#: The arguments that are mappings, of flags whose values are pairs.
_MAPPINGS = {"executables", "parameters"}

#: The types of options as help shows them.
_TYPES = (("_Path", "str | PathLike"), ("_Text", "str | float"), ("_Integer", "int"))


def of(verb: str) -> Callable[[F], F]:
    """A function that passes its options on as flags of a verb: they are arguments of its signature, and any
    other is an error."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [it for it in signature.parameters.values() if it.kind is not inspect.Parameter.VAR_KEYWORD]
        known = {it.name for it in own}
        options = {name: it for name, it in VERBS[verb].items() if name not in known}
        known |= options.keys()

        @functools.wraps(function)
        def checked(*arguments: Any, **given: Any) -> Any:
            for name in given:
                if name not in known:
                    raise TypeError(_unexpected(function.__name__, name, known))
            return function(*arguments, **given)

        named = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_shown(kind))
            for name, (kind, _) in options.items()
        ]
        checked.__signature__ = signature.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
        lines = "\n".join(f"    {name}: {_summary(it[1], verb)}." for name, it in options.items())
        about = inspect.cleandoc(function.__doc__ or "")
        checked.__doc__ = f"{about}\n\nOptions, which are the flags of ``rehal {verb}``:\n{lines}"
        return cast("F", checked)

    return decorate


def _summary(text: str, verb: str) -> str:
    return in_python(text, verb) if "--" in text or "rehal " in text else text


def _shown(kind: str) -> str:
    for name, meaning in _TYPES:
        kind = kind.replace(name, meaning)
    return f"{kind} | None"


def _unexpected(function: str, name: str, known: set[str]) -> str:
    import difflib

    meant = difflib.get_close_matches(name, known, 1)
    advice = f"; did you mean {meant[0]!r}?" if meant else ""
    return f"{function}() got an unexpected keyword argument {name!r}{advice}"


@functools.cache
def _names() -> set[str]:
    return {*_OWN, *(name for options in VERBS.values() for name in options)}


#: A flag with its value, which ends before the punctuation of a sentence.
_FLAG = r"--([a-z][a-z0-9_]*)(?:=('[^']*'|(?:(?:[^\s,;)]|,(?=\S))*[^\s,;.:)])?))?"

#: A command of the tool, with flags and operands in capitals.
_COMMAND = re.compile(rf"\brehal ([a-z]+(?:-[a-z]+)?)((?: {_FLAG}| [A-Z][A-Z_]*(?:\.[a-z]+)?)*)(?![\w-])")


def in_python(text: str, verb: str = "") -> str:
    """A text of the tool, which speaks of flags and commands, with the arguments and functions of this
    package."""

    def command(found: Match[str]) -> str:
        name, rest = found[1], found[2].split()
        if name not in VERBS:
            # A command of the shell, with flags of its own.
            return found[0].replace("--", "\0")
        function = f"rehal.{_FUNCTIONS.get(name, name).replace('-', '_')}"
        operands = [it for it in rest if not it.startswith("--")]
        parts = [it[2:].partition("=") for it in rest if it.startswith("--")]
        flags = [_argument(flag, value, name) for flag, _, value in parts]
        return f"{function}({', '.join([*operands, *flags])})" if rest else function

    def flag(found: Match[str]) -> str:
        name, value = found[1], found[2]
        if name == "help":
            return "help()"
        if name not in _names() and name.rstrip("_") not in _names() and f"{name}_" not in _names():
            return found[0]
        if value is not None:
            return _argument(name, value, verb)
        return _name(name, verb)

    text = re.sub(_FLAG, flag, _COMMAND.sub(command, text)).replace("\0", "--")
    return text.replace("omit the flag", "omit it")


def _name(name: str, verb: str) -> str:
    name = _ARGUMENTS.get(verb, {}).get(name, name)
    return f"{name}_" if name in ("with", "from", "in") else name


def _argument(name: str, value: str, verb: str) -> str:
    name, value = _name(name, verb), value.strip("'")
    if name in _MAPPINGS and "=" in value:
        key, _, value = value.partition("=")
        return f"{name}={{{key!r}: {value!r}}}"
    return f"{name}={value!r}" if value else f"{name}=True"
