"""Keys that Anthropic's request types have; the digest flags any other.

From the official SDK's request types (2.11). A test compares them with what the digest knows.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MESSAGE_KEYS", "NESTED_KINDS", "known_keys"]

_ROWS = """
text: type text cache_control citations prompt_cache_breakpoint annotations logprobs
tool_use: type id name input cache_control caller toolset_name
tool_result: type tool_use_id content is_error cache_control toolset_name
thinking: type thinking signature
redacted_thinking: type data
image: type source cache_control transformations image_url file_id detail prompt_cache_breakpoint
document: type source cache_control citations context title file file_data file_id file_url filename detail prompt_cache_breakpoint
server_tool_use: type id name input cache_control caller server_name
mcp_tool_use: type id name input cache_control caller server_name
search_result: type source title content citations cache_control
container_upload: type file_id cache_control
compaction: type content cache_control encrypted_content signature tool_changes
fallback: type from to trigger
tool_addition: type tool cache_control
tool_removal: type tool cache_control
"""

_SERVER_RESULT: Final = frozenset("type tool_use_id content cache_control caller is_error".split())

BLOCK_KEYS: Final = {
    row.split(":")[0]: frozenset(row.split(":")[1].split()) for row in _ROWS.strip().splitlines()
}
"""Known keys by block type."""


def known_keys(kind: str) -> frozenset[str] | None:
    """Keys of a block type; `None`: an unknown type, of which nothing can be said."""
    if kind not in BLOCK_KEYS and kind.endswith("_tool_result"):
        return _SERVER_RESULT
    return BLOCK_KEYS.get(kind)


MESSAGE_KEYS: Final = frozenset(
    "role content name tool_calls tool_call_id function_call refusal audio reasoning_content "
    "reasoning reasoning_details prefix id type model usage stop_reason stop_sequence stop_details "
    "container context_management diagnostics output_config clear_at phase uuid timestamp "
    "annotations".split()
)
"""Known keys of a bare message: of requests, of responses, and of the internal view."""

NESTED_KINDS: Final = frozenset(
    {"text", "image", "document", "search_result", "tool_reference", "browser_state"}
)
"""Block types that a tool result may hold."""
