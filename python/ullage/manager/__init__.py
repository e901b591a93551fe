"""`ContextManager`: one conversation, kept within its model's window.

`ContextManager` inherits nothing. It has these parts, each made once and given the ones that it uses:

```text
manager          what a host calls; drives flows, synchronously or with await
machine          `Machine`, the conversation as a pure state machine: history, view, states of the levels, counts
options          what the host may state; known: refused where it does not fit, as messages and responses are; `Host`, what is used from outside
prepare          every level, then the request; `Marks`: whether any has to be asked; compactions, automatic and on request; after a refusal
request_writer   `RequestWriter`, the view in the provider's form, repaired; written_form: forms other than Anthropic's
keeping          `Keeper`, the state as one value: saved, in a log, restored if a call fails, rewound; one call at a time prepares a request
journal          that value as plain JSON: whole, as what has changed, and in lines of a log
whole_list       `WholeLists`, for frameworks that hand over their whole list: what is known of it, and the list to send
questions        why a request is what it is and what all have cost, and the library's tools answered
values           what is handed out: Request, Usage, Decided, Recovery
```

How a level plugs in is said in `ullage.levels.level`; it is given one `Context`, and its state is saved with the
conversation. How the session's notes plug in: `ContextManager(memory=...)` takes a
`SessionMemory`, or another object with its `answered` (called with each response), `compacted` (called after each compaction) and
`recall_flow` (asked before a summary is written, AUTO-2; see `ullage.compaction.flow`).
What happens is reported to `listeners` as events of `ullage.observe.events`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.manager.journal import with_changes as with_changes
    from ullage.manager.manager import ContextManager as ContextManager
    from ullage.manager.options import ManagerOptions as ManagerOptions
    from ullage.manager.values import (
        Decided as Decided,
        Recovery as Recovery,
        Request as Request,
        Usage as Usage,
    )
    from ullage.manager.whole_list import ListView, PlanStep as PlanStep

__all__ = ["ListView"]

_HOMES = {
    "journal": "with_changes",
    "manager": "ContextManager",
    "options": "ManagerOptions",
    "values": "Decided Recovery Request Usage",
    "whole_list": "ListView PlanStep",
}
if not TYPE_CHECKING:  # a misspelt name is an error of the type checker
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
