"""The request as a view of the conversation: originals, the decisions laid over them, and the ledger of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage._engine import core
from ullage.digests import BlockFlag, BlockKind, MessageFlag, Role
from ullage.stages.report import Decision, StageReport

__all__ = ["Result", "View"]

Item = Mapping[str, Any]

_PATH_KEYS = ("file_path", "path", "filename", "notebook_path")


@dataclass(frozen=True, slots=True)
class Result:
    """A tool result in the view, with the call that it answers.

    Attributes:
        message: Index of its message; `block` of its block.
        tool: Name of the tool; empty if its call is not in the context.
        given: The call's input.
        chars: Length of its text as it stands in the view.
        tokens: Calibrated estimate of it.
    """

    id: str
    message: int
    block: int
    tool: str
    given: Mapping[str, Any]
    chars: int
    tokens: int
    is_error: bool
    has_media: bool
    replaced: bool

    @property
    def path(self) -> str:
        """The file that the call names, or an empty string."""
        return next(
            (value for key in _PATH_KEYS if isinstance(value := self.given.get(key), str)), ""
        )


class View:
    """What would be sent: the messages since the last summary, with every decision applied.

    Untouched messages are the objects that were added. Adding costs the new message only.

    Args:
        weights: For the calibrated estimate; `None`: characters / 4.
    """

    def __init__(self, weights: Any = None) -> None:
        self._weights = weights
        self.originals: list[Item] = []
        self.messages: list[Item] = []
        self.ledger: Any = core.Ledger(weights)
        self.decisions: dict[str, Decision] = {}
        self.whole: set[str] = set()
        self.sent = 0  # messages before this index were part of a request
        self.freed = 0  # since the newest usage figure, from what that figure covers

    def __len__(self) -> int:
        return len(self.messages)

    # ---- changes -----------------------------------------------------------------------------

    def add(self, item: Item) -> None:
        """Append a message.

        Raises:
            InvalidMessage: It is no message; nothing has changed.
        """
        shown = self._shown(item)
        self.ledger.append(shown)
        self.originals.append(item)
        self.messages.append(shown)
        if self.ledger.message(-1).flags & MessageFlag.HAS_USAGE:
            self.freed = 0

    def decide(self, decisions: Iterable[Decision]) -> int | None:
        """Apply decisions; returns the first changed message that was sent before, or `None`."""
        touched: set[int] = set()
        for decision in decisions:
            place = self.ledger.find_result(decision.tool_use_id)
            if place is not None:
                self.decisions[decision.tool_use_id] = decision
                touched.add(place[0])
        for index in sorted(touched):
            self._refresh(index)
        return min((index for index in touched if index < self.sent), default=None)

    def _refresh(self, index: int) -> None:
        anchor = self.ledger.anchor()
        before = self.ledger.message(index).tokens
        self.messages[index] = self._shown(self.originals[index])
        self.ledger.replace(index, self.messages[index])
        if anchor is not None and index < anchor.covers:
            self.freed += before - self.ledger.message(index).tokens

    def rebase(self, items: Sequence[Item]) -> None:
        """Begin anew from other messages, as after a summary; decisions stay."""
        shown = [self._shown(item) for item in items]
        self.ledger = core.Ledger(self._weights, shown)
        self.originals, self.messages = list(items), shown
        self.sent = self.freed = 0

    def _shown(self, item: Item) -> Item:
        message = item if "role" in item else item.get("message")
        if not self.decisions or not isinstance(message, Mapping):
            return item
        content = message.get("content")
        if not isinstance(content, list):
            return item
        blocks = [self._block(block) for block in content]
        if all(new is old for new, old in zip(blocks, content, strict=True)):
            return item
        changed = {**message, "content": blocks}
        return changed if message is item else {**item, "message": changed}

    def _block(self, block: Any) -> Any:
        if not isinstance(block, Mapping) or block.get("type") != "tool_result":
            return block
        decision = self.decisions.get(str(block.get("tool_use_id")))
        return block if decision is None else {**block, "content": decision.text}

    # ---- questions ---------------------------------------------------------------------------

    def tokens(self, overhead: int = 0) -> int:
        """Tokens of the next request.

        The provider's newest figure, corrected by what was freed since, and the estimate of what
        followed; without a figure the estimate of all messages and `overhead` (system prompt and tools).
        """
        count = self.ledger.anchored(max(0, self.freed))
        return int(count.total) if count.anchor is not None else int(count.total) + overhead

    def results(self, start: int = 0) -> Iterator[Result]:
        """Tool results from message `start` on, oldest first."""
        for index in range(start, len(self.messages)):
            if self.ledger.message(index).role not in (Role.USER, Role.TOOL):
                continue
            for number, block in enumerate(self.ledger.blocks(index)):
                if block.kind == BlockKind.TOOL_RESULT and block.id:
                    yield self._result(index, number, block)

    def _result(self, index: int, number: int, block: Any) -> Result:
        name = self.ledger.string(block.id)
        tool, given = self._call(name)
        return Result(
            id=name,
            message=index,
            block=number,
            tool=tool,
            given=given,
            chars=block.chars,
            tokens=block.tokens,
            is_error=bool(block.flags & BlockFlag.IS_ERROR),
            has_media=bool(block.flags & BlockFlag.NESTED_MEDIA),
            replaced=name in self.decisions
            or bool(block.flags & (BlockFlag.CLEARED | BlockFlag.OFFLOADED)),
        )

    def _call(self, tool_use_id: str) -> tuple[str, Mapping[str, Any]]:
        place = self.ledger.find_call(tool_use_id)
        if place is None:
            return "", {}
        digest = self.ledger.blocks(place[0])[place[1]]
        message = self.originals[place[0]]
        content = message.get("message", message).get("content")
        block = content[place[1]] if isinstance(content, list) and place[1] < len(content) else {}
        given = block.get("input") if isinstance(block, Mapping) else None
        return self.ledger.string(digest.name), given if isinstance(given, Mapping) else {}

    def text(self, result: Result) -> str:
        """The text of a result as it was added; texts of several blocks are joined by line ends."""
        message = self.originals[result.message]
        content = message.get("message", message)["content"]
        inner = content[result.block].get("content") if isinstance(content, list) else content
        if isinstance(inner, str):
            return inner
        texts = (part.get("text") for part in inner or () if isinstance(part, Mapping))
        return "\n".join(text for text in texts if isinstance(text, str))

    def report(
        self, stage: str, why: str, chosen: Sequence[tuple[Result, Decision]], **more: Any
    ) -> StageReport:
        """Apply decisions and say what they did."""
        before = self.ledger.tokens()
        changed = self.decide(decision for _, decision in chosen)
        return StageReport(
            stage=stage,
            why=why,
            tokens_before=before,
            tokens_after=self.ledger.tokens(),
            tool_use_ids=tuple(result.id for result, _ in chosen),
            tools=tuple(dict.fromkeys(result.tool for result, _ in chosen)),
            paths=tuple(dict.fromkeys(result.path for result, _ in chosen if result.path)),
            first_changed=changed,
            **more,
        )
