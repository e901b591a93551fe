"""`ContextManager`: one conversation, kept within its model's window.

```text
manager   what a host calls; drives flows, synchronously or with await
machine   the conversation as a pure state machine: history, view, states of the levels, counts
flows     prepare, compact, recover: generators of effects, no I/O of their own
values    what is handed out: Request, Usage, Decided, Recovery
```

How a level plugs in is said in `ullage.pipeline`; it is given the view, the policy, the situation and its own
state, which is saved with the conversation. How a source of summaries plugs in: `ContextManager(memory=...)` takes an object
whose `compaction_flow(machine)` is asked before the full compaction (AUTO-2); it yields effects and
returns a `CompactionResult` over `machine.view.messages`, or `None` to let the full compaction run.
What happens is told to `listeners` as events of `ullage.events`.
"""

from __future__ import annotations

from ullage.context.manager import ContextManager
from ullage.context.values import Decided, Recovery, Request, Usage

__all__ = ["ContextManager", "Decided", "Recovery", "Request", "Usage"]
