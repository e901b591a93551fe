"""Public signatures say what they take and give: no `Any`, no `**options`, nothing that cannot be resolved.

`Any` may stand in one place: as the value of a JSON object (`Mapping[str, Any]`, `dict[str, Any]`), which is what a
message, a block, a request and a tool's definition are.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Generator, Iterator, Mapping
from os import PathLike
from typing import Any, Generic, TypeVar

import ullage.compaction.job
import ullage.facts
import ullage.legality
import ullage.legality.params
import ullage.levels.cost
import ullage.levels.pins
import ullage.manager.journal
import ullage.manager.questions
import ullage.observe
import ullage.recall
import ullage.recall.store
import ullage.recall.text
import ullage.requests
import ullage.summarizers.protocol
from tests.kit import names_of, top_names
from ullage import ContextManager
from ullage.manager.known import _ARGUMENTS
from ullage.manager.options import ManagerOptions, Outside

MODULES = (
    "ullage",
    "ullage.batch",
    "ullage.compaction",
    "ullage.counting",
    "ullage.dropin.anthropic",
    "ullage.dropin.langchain",
    "ullage.dropin.litellm",
    "ullage.dropin.tiktoken",
    "ullage.exceptions",
    "ullage.facts",
    "ullage.legality",
    "ullage.levels",
    "ullage.manager",
    "ullage.memory.notes",
    "ullage.memory.session",
    "ullage.messages",
    "ullage.observe",
    "ullage.policy",
    "ullage.providers",
    "ullage.recall",
    "ullage.replay",
    "ullage.requests",
    "ullage.sessions",
    "ullage.summarizers",
    "ullage.testing",
    "ullage.transcript",
)
_Given, _Made = TypeVar("_Given"), TypeVar("_Made")


class _Runnable(Generic[_Given, _Made]):
    """LangChain's, as far as a signature goes: the type that it takes and the one that it gives."""


LATE = {
    "AnyProvider": ullage.providers.AnyProvider,
    "BaseMessage": object,
    "BetaAbstractMemoryTool": object,
    "Runnable": _Runnable,
    "StageReport": ullage.levels.StageReport,
    "Cost": ullage.levels.cost.Cost,
    # What a conversation needs only with a log, a summary or a listener: `from ullage import ContextManager` does not load it.
    "CompactionResult": ullage.CompactionResult,
    "Direction": ullage.compaction.job.Direction,
    "Explanation": ullage.manager.questions.Explanation,
    "Facts": ullage.facts.Facts,
    "Hooks": ullage.Hooks,
    "Journal": ullage.manager.journal.Journal,
    "KeptNotes": ullage.compaction.job.KeptNotes,
    "Report": ullage.legality.Report,
    "ListView": ullage.manager.ListView,
    "Listener": ullage.observe.Listener,
    "OffloadStore": ullage.recall.store.OffloadStore,
    "Outgoing": ullage.requests.Outgoing,
    "ManagerOptions": ManagerOptions,
    "Outside": Outside,
    "CacheMarks": ullage.manager.request_writer.CacheMarks,
    "Pin": ullage.levels.pins.Pin,
    "SessionCosts": ullage.levels.cost.SessionCosts,
    "RequestParameters": ullage.legality.params.RequestParameters,
    "Log": str | PathLike[str] | ullage.TranscriptLog,
    "Recall": ullage.recall.Recall,
    "Repair": ullage.legality.Repair,
    "Request": ullage.manager.values.Request,
    "RequestRecord": ullage.manager.questions.RequestRecord,
    "Summarizer": ullage.summarizers.protocol.Summarizer,
    "ToolAnswer": ullage.recall.text.ToolAnswer,
    "TranscriptLog": ullage.TranscriptLog,
    "Weights": ullage.counting.Weights,
    "Writer": ullage.summarizers.protocol.Writer,
    "WriterLike": ullage.summarizers.protocol.WriterLike,
}
"""Imported for type checkers alone: of an optional package, of a room that stands above, or slow to load."""
SPECIAL = ("__init__", "__call__", "__getitem__", "__enter__", "__iter__", "__aenter__")


def named(module: str) -> Iterator[tuple[str, object]]:
    room = importlib.import_module(module)
    for name in top_names() if module == "ullage" else names_of(module.removeprefix("ullage.")):
        yield f"{module}.{name}", getattr(room, name)


def opaque(hint: object, *, value: bool = False) -> bool:
    """Whether a hint holds `Any` outside of a JSON object."""
    if hint is Any:
        return not value
    if isinstance(hint, list | tuple):  # the arguments of a Callable
        return any(opaque(each) for each in hint)
    base, given = typing.get_origin(hint), typing.get_args(hint)
    if base is Generator:  # a flow: what a driver sends back is between it and the effects
        return opaque(given[2])
    if base in (dict, Mapping, *_MAPPINGS) and given and given[0] is str:
        return opaque(given[1], value=True)
    return any(opaque(each) for each in given)


_MAPPINGS = (importlib.import_module("collections.abc").MutableMapping,)


def hints_of(value: object) -> dict[str, object]:
    names = vars(sys.modules[getattr(value, "__module__", None) or "builtins"])
    whole = None if inspect.isclass(value) else {**vars(typing), **names, **LATE}
    try:
        return typing.get_type_hints(value, whole, None if whole else LATE)
    except (NameError, TypeError) as error:
        return {f"<unresolved: {error}>": Any}


def functions(name: str, value: object) -> Iterator[tuple[str, object]]:
    if inspect.isfunction(value):
        yield name, value
    elif inspect.isclass(value):
        own = [each for each in reversed(value.__mro__) if each.__module__.startswith("ullage")]
        for key, held in {name: held for each in own for name, held in vars(each).items()}.items():
            if key.startswith("_") and key not in SPECIAL:
                continue
            if isinstance(held, staticmethod | classmethod):
                yield f"{name}.{key}", held.__func__
            elif isinstance(held, property) and held.fget is not None:
                yield f"{name}.{key}", held.fget
            elif inspect.isfunction(held):
                yield f"{name}.{key}", held


def faults(name: str, value: object) -> Iterator[str]:
    """What is wrong with the signatures of one public object."""
    if inspect.isclass(value) and value.__module__ != "ullage._core":
        for key, hint in hints_of(value).items():
            if not key.startswith("_") and opaque(hint):
                yield f"{name}.{key}: {hint}"
    for place, function in functions(name, value):
        if place.endswith(".__init__") and (
            dataclasses.is_dataclass(value) or getattr(value, "_is_protocol", False)
        ):
            continue
        hints = hints_of(function)
        for key, parameter in inspect.signature(function).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD and not typing.is_typeddict(
                typing.get_args(hints.get(key))[0] if typing.get_args(hints.get(key)) else None
            ):
                yield f"{place}(**{key})"
        yield from (f"{place}({key}): {hint}" for key, hint in hints.items() if opaque(hint))


def reached(hint: object) -> Iterator[type]:
    if inspect.isclass(hint) and hint.__module__.startswith("ullage."):
        yield hint
    given = hint if isinstance(hint, list | tuple) else typing.get_args(hint)
    if typing.get_origin(hint) is Generator:
        given = given[2:]
    for each in given:
        yield from reached(each)


def surface() -> dict[str, object]:
    """The named objects, and the classes that their signatures lead to."""
    found: dict[int, tuple[str, object]] = {}
    waiting = [each for module in MODULES for each in named(module)]
    while waiting:
        name, value = waiting.pop(0)
        if id(value) in found or isinstance(value, types.ModuleType):
            continue
        found[id(value)] = (name, value)
        hints: list[object] = []
        if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):  # what is handed out
            hints += hints_of(value).values()
        for _place, function in functions(name, value):
            hints += hints_of(function).values()
        waiting += [
            (f"{each.__module__}.{each.__qualname__}", each)
            for hint in hints
            for each in reached(hint)
        ]
    return dict(found.values())


def wrong() -> list[str]:
    return sorted({fault for name, value in surface().items() for fault in faults(name, value)})


def test_no_any_and_no_open_options_in_public_signatures():
    assert wrong() == []


def test_what_a_restored_manager_takes_is_what_the_constructor_takes():
    own = taken_by(ContextManager.__init__) - {"self"}
    assert set(Outside.__optional_keys__) == own - {"policy", "log"}
    assert set(_ARGUMENTS) == own  # which has their defaults


def test_a_session_is_compacted_with_the_arguments_of_a_list():
    of_list, of_session = taken_by(ullage.compact), taken_by(ullage.compact_session)
    # What the session itself knows: its items, its form, and where the result goes.
    assert of_list - of_session == {"items", "provider", "store", "log"}
    assert taken_by(ullage.acompact) == of_list
    assert typing.get_type_hints(ullage.compaction.Job).keys() > of_list - {
        "model", "provider", "log", "cancel", "listeners",
    }  # fmt: skip


def taken_by(function: Callable[..., object]) -> set[str]:
    """Names of arguments, those of its record of options included."""
    own = set(inspect.signature(function).parameters) - {"options"}
    (record,) = typing.get_args(hints_of(function)["options"])
    return own | record.__optional_keys__


if __name__ == "__main__":
    found = wrong()
    print("\n".join(found))
    print(f"{len(top_names())} names at the top, {len(surface())} objects, {len(found)} faults")
