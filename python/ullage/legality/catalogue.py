"""Every rule by its id: what it demands, what to do, and where that comes from.

Sources: `docs` is the provider's documentation, `sdk` the types of its official SDK, `error` the
text of a refusal seen in public reports.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["RULES", "Rule"]


class Rule(NamedTuple):
    """One rule of the catalogue."""

    id: str
    demand: str
    advice: str
    source: str


_ROWS = """
A01|1 to 100,000 messages; roles user, assistant, system|send at least one message, with known roles|sdk message_create_params
A02|no empty content and no blank text|drop the block or the message|error "text content blocks must be non-empty"
A03|only blocks that the role may hold|move or drop the block|sdk content_block_param
A04|no keys that the API does not know|keep metadata beside the message, not in it|error "Extra inputs are not permitted"
A05|every tool use has exactly one result, in the next message|add the missing result, or an error result in its place|error "tool_use ids were found without tool_result blocks"
A06|every tool result follows its tool use directly|drop the result together with its call, or keep both|error "unexpected tool_use_id found in tool_result blocks"
A07|tool results come first in their message|move other content after the results|docs handle-tool-calls
A08|tool use ids are unique and of A-Z a-z 0-9 _ -; input is an object|map ids in call and result alike|error "tool_use ids must be unique"
A09|a server tool use and its result stay together|keep or drop both|docs server-tools
A10|while a server tool use is open only tool results follow, and the tool is in the request|answer first, speak afterwards|docs server-tools
A11|the last message is the user's|end with a user message|docs errors: prefill not supported
A12|system messages stand after a user turn and before an assistant turn|move it behind the next user message|docs mid-conversation-system-messages
A13|thinking keeps its signature and, in the current turn, stays as it came|send the blocks back verbatim|docs extended-thinking
A14|with manual thinking an open tool loop begins with thinking|keep the thinking of the open turn|error "Expected thinking or redacted_thinking, but found text"
A15|bound thinking only after exactly what it was made after|remove all thinking after the first change, or send drop_block with its header|docs preserved-thinking
A16|kept thinking is one unbroken run and never comes back once removed|remove thinking from the start or from the end only|docs prefix-checks
A17|at most 4 cache markers|drop the oldest markers of messages|error "A maximum of 4 blocks with cache_control"
A18|1h cache markers come before 5m ones|use one TTL for what comes later|error "a ttl='1h' cache_control block must not come after a ttl='5m'"
A19|no cache marker on blank text or thinking|put it on the block before|error "cache_control cannot be set for empty text blocks"
A20|from version 2026-10-21: no assistant documents, no user citations, no sampling parameters|drop them|docs migration-2026-10-21
A21|images within number, size and format limits|scale them down, or drop some|docs vision
A22|PDF pages within the limit|send fewer pages|docs pdf-support
A23|request body within 32 MB|drop media or turns: a summary of tokens does not help|docs errors
A24|tokens within the window, max_tokens within the model's limit|make room|docs context-windows
A25|one signed compaction block, first, unchanged, with its header|keep the newest and what follows it|sdk beta_compaction_block_param
A26|context edits of a legal form|see the advice of the finding|docs context-editing
A27|search results: all with citations or none|set the same on all|docs search-results
A28|nothing unfinished before a fallback block|drop thinking and open calls before it|docs refusals-and-fallback
A29|user first, roles alternate|merge neighbours, where a platform demands it|docs release notes, Oct 8 2024
A30|tools are sent along with tool blocks|keep the tools as they were|error "toolConfig field must be defined"
A31|tool changes that later calls rest on stay|keep the system message with the change|sdk tool_addition
A32|no cache edits, no unknown cache_control|they are no public API: remove them|sdk, absence
T01|every string is valid Unicode: no lone surrogates|put U+FFFD in their place|error of SDKs: surrogates not allowed
C01|where nothing was done the same bytes are sent|hand the same objects on, keys in their order|docs prompt-caching
C02|a request continues the one before|rewrite rarely and count it|docs prompt-caching
C03|a rewrite frees enough to pay for itself|clear more at once, or wait|docs prompt-caching: prices
C04|system and tools stay byte for byte|change them between conversations only|docs prompt-caching: invalidation
C05|placeholders are constants|no times, counters or random ids in them|docs prompt-caching
C06|a marker within 20 blocks of the one before|place one more marker in a long turn|docs prompt-caching: lookback
C07|a summary is asked for by the exact request before it and one user message|append the instruction; keep model, system, tools and thinking|docs prompt-caching (Claude Code)
C08|images are removed in one batch|remove all old images at once|docs prompt-caching: invalidation
C09|after a rewrite the new prefix stays until the next is due|no window that slides with every turn|docs prompt-caching
C10|the same prompt_cache_key throughout|pass it on every request|docs prompt-caching (OpenAI)
O01|every tool call is answered once, directly after it|add the missing tool message|error "must be followed by tool messages"
O02|every tool message answers a call just before|drop it with its call, or keep both|error "must be a response to a preceeding message"
O03|tool_calls is a non-empty list; arguments a JSON string|leave tool_calls out; encode the arguments|sdk chat
O04|assistant messages have content or tool calls|drop the message|sdk chat
O05|tool call ids are unique and at most 40 characters|map ids in call and result alike|sdk chat
O06|known roles; function only after function_call|use tool messages|sdk chat
O07|tool content is text|put images into a user message|sdk chat
O08|a string has at most 10,485,760 characters|cut it|error string_above_max_length
O09|tokens within the window|make room|error context_length_exceeded
O10|compatible servers: system first, alternation, no null content|merge and move|docs of the servers
R01|calls and outputs pair by call_id, call first|keep or drop both|error "No tool output found for function call"
R02|reasoning stays with the item that follows it|keep or drop both, or drop the ids|error "without its required 'reasoning' item"
R03|with store false reasoning has encrypted_content|ask for reasoning.encrypted_content, or drop the item|error "Item with id ... not found"
R04|compaction items stay as they came|pass the output on unchanged|docs compaction
R05|previous_response_id: only new items, no conversation|send what is new|docs conversation state
R06|item ids are unique|drop the repeated item|sdk responses
R07|phase and unknown fields stay|send assistant messages back verbatim|sdk responses
G01|first content is the user's; roles alternate|merge neighbours; begin with a user turn|docs gemini contents
G02|function calls follow a user or function turn|put a user turn before it|error "function call turn comes immediately after"
G03|as many function responses as calls, in order, at once|answer each call|error "number of function response parts"
G04|calls of the current turn keep their thoughtSignature|send the part back verbatim, or with the dummy|docs thought-signatures
G05|no empty parts|drop them|error "contents.parts must not be empty"
G06|the last turn is not a function call|answer it|docs function-calling
G07|signed parts are neither merged nor split|keep the parts as they came|docs thought-signatures
B01|starts and ends with user, strict alternation|merge neighbours|error "must start with a user message"
B02|no blank text; an error result has content|drop or fill it|error "The text field ... is blank"
B03|toolConfig with tool blocks|keep the tools|error "The toolConfig field must be defined"
B04|tool uses and results pair as on Anthropic|see A05 to A08|error "Expected toolResult blocks"
B05|reasoning keeps its signature|send it back verbatim|docs bedrock thinking
B06|at most 4 cache points|drop the oldest|docs bedrock prompt caching
B07|20 images and 5 documents per message; images of 5 MB|send fewer|docs converse limits
B08|more than 20 images and PDFs: 2000 px per side|scale them down|docs vision
M01|as many tool messages as calls, of the same ids|add the missing one|error "Not the same number of function calls and responses"
M02|after tool comes assistant or tool|put an assistant message between|error 3230 "Unexpected role 'user' after role 'tool'"
M03|tool call ids are 9 letters or digits|map ids in call and result alike|error 3280
M04|the last message is user or tool, or an assistant prefix|end with a user message|docs mistral
M05|system messages come first|move them to the front|docs mistral
D01|thinking mode: reasoning_content on messages with tool calls|keep it, "" if it is lost|error "reasoning_content in the thinking mode must be passed back"
D02|content or tool_calls is set|drop the message|error "content or tool_calls must be set"
D03|calls and tool messages pair as on OpenAI|see O01 and O02|error 2013 "tool call result does not follow tool call"
L01|at most one system message, first|merge them|error "System message must be at the beginning"
L02|user and assistant alternate|merge neighbours|error "Conversation roles must alternate"
L03|ends with user or tool|end with a user message|docs chat templates
L04|prompt + max_tokens within the server's context|make room; some servers cut silently|docs ollama
L05|what the template made of earlier messages stays at its beginning|no dates in it, no reasoning that it strips later|docs vllm: automatic prefix caching
X01|a legal conversation is legal afterwards|repair the request|ours
X02|no operation adds tokens|leave the conversation as it is|ours
X03|the newest words of the user stay word for word|keep them, or repeat them after the summary|ours
X04|what we do not know passes unchanged|drop it with its neighbours, or keep it as it is|ours
X05|doing it again changes nothing|mark what was done|ours
X06|the input is not changed|copy what must change|ours
X07|ids of calls stay|map ids where a provider's form demands it only (M03)|ours
X08|an illegal conversation is not more so afterwards|repair the request|ours
X09|no cut between a call and its result, or reasoning and its item|move the cut back|ours
X10|an overflow is told from what only looks like one|add the provider's text to the table|docs of the providers
"""

RULES: dict[str, Rule] = {
    row.split("|")[0]: Rule(*row.split("|")) for row in _ROWS.strip().splitlines()
}
"""All rules by id."""
