"""A summary that a client wrote lists the user's messages without numbers: they live through two compactions."""

from __future__ import annotations

from ullage.compaction import compact
from ullage.facts.words import text_of

CLIENTS = """This session is being continued from a previous conversation that ran out of context. The summary below covers the earlier portion of the conversation.

Summary:
1. Primary Request and Intent:
   - Lanes next to the list

2. Key Technical Concepts:
   - Bubble Tea

6. All user messages:
   - "put the lanes on the left, never on the right"
   - "can we group the changes into meaningful commits?"
   - "and less space between the lines"

8. Current Work:
   Drawing lanes.
"""


def test_the_users_words_in_a_clients_summary_live_through_two_compactions():
    log: list[dict[str, object]] = [{"role": "user", "content": CLIENTS}]
    for at in range(40):
        log += [
            {"role": "assistant", "content": f"Drew lane {at}. " + "It has a border. " * 60},
            {"role": "user", "content": f"draw lane {at + 1} too, please"},
        ]
    once = compact(log[:40], keep=0)
    assert once.compacted
    assert "never on the right" in text_of(once.summary_messages[-1])
    following = [{"role": "assistant", "content": "Done. " * 2000}]
    twice = compact([*once.messages, *following], keep=0)
    assert "meaningful commits" in text_of(twice.summary_messages[-1])
    assert "never on the right" in text_of(twice.summary_messages[-1])


def test_nor_does_a_newest_message_after_the_summary_replace_them():
    log = [{"role": "user", "content": CLIENTS}, {"role": "assistant", "content": "Done. " * 4000}]
    once = compact(log, keep=0)
    twice = compact([*once.messages, {"role": "assistant", "content": "Done. " * 4000}], keep=0)
    for result in (once, twice):
        assert result.compacted
        told = text_of(result.summary_messages[-1])
        assert "never on the right" in told
        assert "meaningful commits" in told
