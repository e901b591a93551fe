"""`ContextManager`: one conversation, kept within its model's window.

```text
manager          what a host calls; drives flows, synchronously or with await
accessors        what may be asked of it at any moment
machine          the conversation as a pure state machine: history, view, states of the levels, counts
prepare          prepare, compact: generators of effects, no I/O of their own; recovery: after a refusal
exclusive        one call at a time prepares a request
background_flow  summaries of spans, asked for while the conversation goes on
values           what is handed out: Request, Usage, Decided, Recovery
```

How a level plugs in is said in `ullage.levels.pipeline`; it is given the view, the policy, the situation and its own
state, which is saved with the conversation. How the session's notes plug in: `ContextManager(memory=...)` takes a
`SessionMemory`, or another object with its `answered` (called with each response), `compacted` (called with each compaction) and
`recall_flow` (asked before a summary is written, AUTO-2; see `ullage.compaction.from_session_notes`).
What happens is reported to `listeners` as events of `ullage.observe.events`.
"""

from __future__ import annotations

from ullage.manager.manager import ContextManager
from ullage.manager.values import Decided, Recovery, Request, Usage

__all__ = ["ContextManager", "Decided", "Recovery", "Request", "Usage"]
