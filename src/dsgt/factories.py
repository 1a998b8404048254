"""A person's own code by name: ``module:name``, or with arguments ``module:name:key=value,key=value``.

Modules are found where Python finds them, and in the current folder.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

YES_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
WORDS = {"true": True, "false": False, "none": None}


@dataclass(frozen=True, eq=False)
class Factory:
    """What a text names, and the arguments that stand there."""

    text: str
    what: str
    """What it ought to make, for sentences: ``model``."""
    found: Any
    given: dict[str, str]
    """Not yet read: only the factory knows of which type its arguments are."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Numbers, truth values and words, as Python would read them."""
        return {key: _read(value) for key, value in self.given.items()}

    def takes(self, name: str) -> bool:
        """Whether it can be called with an argument of this name. One that takes any is not meant."""
        return callable(self.found) and name in _signature(self.found).parameters

    def make(self, *kinds: type, **offered: Any) -> Any:
        """Call it with its arguments and those of the offered ones that it takes; one of ``kinds`` must come out.

        An object that is already of such a kind is taken as it is. A ValueError says what is wrong.
        """
        if not isinstance(self.found, type) and isinstance(self.found, kinds):
            if self.given:
                raise ValueError(f"the {self.what} {self.text!r} is an object and takes no arguments; leave them out")
            return self.found
        if not callable(self.found):
            raise ValueError(self._wrong(self.found, kinds))
        arguments = self.arguments | {k: v for k, v in offered.items() if self.takes(k) and k not in self.given}
        try:
            _signature(self.found).bind(**arguments)
        except TypeError as error:
            raise ValueError(f"the {self.what} {self.text!r} cannot be called: {error}; {self._how(offered)}") from None
        made = self.call(lambda: self.found(**arguments))
        if not isinstance(made, kinds):
            raise ValueError(self._wrong(made, kinds))
        return made

    def function(self, *example: Any) -> Callable[..., Any]:
        """Itself with its arguments, for who calls it with things like these before them; a ValueError where that
        cannot be."""
        if not callable(self.found):
            raise ValueError(f"the {self.what} {self.text!r} is {a_thing(self.found)}; expected a function")
        arguments = self.arguments
        try:
            _signature(self.found).bind(*example, **arguments)
        except TypeError as error:
            offered = dict.fromkeys([*_signature(self.found).parameters][: len(example)])
            raise ValueError(f"the {self.what} {self.text!r} cannot be called: {error}; {self._how(offered)}") from None
        return lambda *now: self.call(lambda: self.found(*now, **arguments))

    def call(self, act: Callable[[], Any]) -> Any:
        """What goes wrong in a person's own code is told in one sentence that names it."""
        try:
            return act()
        except (Exception, SystemExit) as error:
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            raise ValueError(f"the {self.what} {self.text!r} failed: {kind}{error}") from error

    def _how(self, offered: Mapping[str, Any]) -> str:
        """Which arguments there are, and how to give them."""
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        known = [n for n, p in _signature(self.found).parameters.items() if p.kind in kinds and n not in offered]
        head = self.text.removesuffix(":" + ",".join(f"{key}={value}" for key, value in self.given.items()))
        if unknown := [key for key in self.given if key not in known]:
            close = difflib.get_close_matches(unknown[0], known, n=1)
            guess = f"did you mean {close[0]!r}? " if close else ""
            return f"{guess}{head} takes {', '.join(known) or 'no arguments'}"
        told = f"; by itself it is told {', '.join(offered)}, where it has arguments of these names" if offered else ""
        return f"give arguments as in {head}:key=value{told}"

    def _wrong(self, made: Any, kinds: tuple[type, ...]) -> str:
        expected = " or ".join(kind.__name__ for kind in kinds)
        return f"the {self.what} {self.text!r} gives {a_thing(made)}; expected {expected}"


def a_thing(made: object) -> str:
    """``a str``, ``an int``"""
    kind = type(made).__name__
    return f"{'an' if kind[0] in 'aeiouAEIO' else 'a'} {kind}"


def is_factory(text: str) -> bool:
    """``module:name``, not ``name:key=value``."""
    module, colon, rest = text.partition(":")
    names = [*module.split("."), *rest.partition(":")[0].split(".")]
    return bool(colon) and all(name.isidentifier() for name in names)


def lookup(text: str, what: str) -> Factory:
    """What ``module:name`` or ``module:name:key=value`` names; a ValueError says why that cannot be had."""
    return _lookup(text, what, os.getcwd())


@lru_cache(maxsize=64)  # the same object again, so that what it loaded once is found again
def _lookup(text: str, what: str, folder: str) -> Factory:
    module, name, *rest = text.split(":", 2)
    if folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)  # as for a script; a worker process is given the same path
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            stem = module.removesuffix(".py")
            hint = f"; a module is named without its ending: {stem}:{name}" if stem != module else ""
            raise ValueError(
                f"the {what} {text!r} cannot be imported: there is no module {error.name!r}, neither in "
                f"{folder} nor where Python looks{hint}"
            ) from None
        raise ValueError(_not_imported(text, what, error)) from error
    except (Exception, SystemExit) as error:  # whatever that module does when it is imported
        raise ValueError(_not_imported(text, what, error)) from error
    for part in name.split("."):
        if not hasattr(found, part):
            close = difflib.get_close_matches(part, [n for n in dir(found) if n[0] != "_"], n=1)
            guess = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"the {what} {text!r} cannot be imported: {module} has no {part!r}{guess}")
        found = getattr(found, part)
    return Factory(text, what, found, pairs(text, rest[0]) if rest else {})


def _not_imported(text: str, what: str, error: BaseException) -> str:
    hint = "; put what a script does below if __name__ == '__main__'" if isinstance(error, SystemExit) else ""
    return f"the {what} {text!r} cannot be imported: {type(error).__name__}: {error}{hint}"


def pairs(text: str, given: str) -> dict[str, str]:
    """What stands behind the name in ``text``: key=value,key=value."""
    values: dict[str, str] = {}
    for pair in given.split(","):
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"{pair!r} in {text!r} is not key=value; arguments are module:name:key=value,key=value")
        if key in values:
            raise ValueError(f"{key} is given twice in {text!r}; give it once")
        values[key] = value
    return values


def truth(name: str, value: object) -> bool:
    """An argument that is true or false; any other word would count as true in Python."""
    if (word := str(value).lower()) not in YES_NO:
        raise ValueError(f"{name} is {value!r}; give true or false")
    return YES_NO[word]


def _read(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _signature(found: Any) -> inspect.Signature:
    try:
        return inspect.signature(found)
    except (TypeError, ValueError):  # some of C's have none
        anything = inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)
        return inspect.Signature([anything])
