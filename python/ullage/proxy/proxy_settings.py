"""Every setting of the gateway."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit

from ullage.exceptions import InvalidPolicy
from ullage.policy import Policy
from ullage.stores import DocumentStore

ANTHROPIC = "https://api.anthropic.com"
OPENAI = "https://api.openai.com"

CompactionMode = Literal["pass", "extractive", "repair"]
MODES = get_args(CompactionMode)

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """Settings of the gateway.

    Attributes:
        upstream: Base URL of the provider, to which path and query are appended; empty: Anthropic's or OpenAI's own, by
            what a request is.
        host: Address to listen on; the default, like every loopback address, is reachable from this machine only.
        port: Port to listen on; 0: a free one.
        ca_file: Certificates to verify the upstream by (PEM); `None`: the system's.
        max_body_bytes: Largest request; a larger one gets 413. Both APIs refuse more than 32 MiB.
        max_header_bytes: Maximum size of a request's headers; more gets 431, even before they are complete.
        read_seconds: Longest silence of a client that is sending its request, and longest time for its headers; then 408.
        connect_seconds: Longest wait for a connection to the upstream; then 504.
        silence_seconds: Longest silence of the upstream before or during a response; then the gateway gives up.
        compaction: Who answers when a client compacts by itself: `pass`: the provider. `extractive`: code, without a model.
            `repair`: the provider, and code completes what its summary lost.
        hand_over: Whether summaries that code writes for Claude Code are kept in Ullage's own folder for ten minutes, for the hook
            that runs after a compaction: it then restores only what they lack. `ullage proxy` does so.
        levels: Whether levels act on requests; false: requests pass unchanged.
        policy: Of the levels; `None`: the default, where clearing waits until it pays for the cache that it breaks. What needs the
            client's help (stores, tools for the model, edits of the provider) is off whatever it says.
        store: Keeps the levels' decisions and the key of compaction items over a restart: any store of `ullage.stores`; `None`:
            nothing is kept, and items that Codex was given can be read by this process alone.
        keep_text: Whether decisions are kept there, which hold text of conversations: excerpts of results, summaries. Without them
            the levels decide again after a restart, and the next prompt of each conversation is cached again. `ullage proxy` keeps
            them with `--keep-text`.
        state_days: After which decisions in a `FolderStore` are removed, which hold text of conversations; 0: never.
        state_bytes: Maximum size of these; the oldest are removed first; 0: no limit.
        record: Folder for records of the calls that levels look at, which `ullage-check` reads: a file for each line of a conversation,
            with its messages as they came, without cache marks. They are texts of conversations, and nothing removes them. `None`:
            there are none.
        page_token: Lets anyone read the page, the metrics and what left a conversation (`?token=…`, or as a bearer token); empty: only
            callers on this machine, by one of its names.
        allowed_origins: Sites whose pages may send requests from a browser, such as `https://chat.example`; `*`: all of them.

    Raises:
        InvalidPolicy: A value is out of range; names the field.
    """

    upstream: str = ""
    host: str = "127.0.0.1"
    port: int = 8787
    ca_file: Path | None = None
    max_body_bytes: int = 64 * MIB
    max_header_bytes: int = 64 * 1024
    read_seconds: float = 60.0
    connect_seconds: float = 30.0
    silence_seconds: float = 600.0
    compaction: CompactionMode = "extractive"
    hand_over: bool = False
    levels: bool = True
    policy: Policy | None = None
    store: DocumentStore | None = None
    keep_text: bool = True
    state_days: float = 30.0
    state_bytes: int = 256 * MIB
    record: Path | None = None
    page_token: str = ""
    allowed_origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.upstream:
            _checked_url(self.upstream)
        if not 0 <= self.port <= 65_535:
            raise InvalidPolicy("port", self.port, "must be from 0 to 65535")
        if self.compaction not in MODES:
            raise InvalidPolicy("compaction", self.compaction, f"must be one of {', '.join(MODES)}")
        least = {"max_body_bytes": 1, "max_header_bytes": 1, "state_days": 0, "state_bytes": 0}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise InvalidPolicy(name, getattr(self, name), f"must be at least {bound}")
        for name in ("read_seconds", "connect_seconds", "silence_seconds"):
            if not getattr(self, name) > 0:
                raise InvalidPolicy(name, getattr(self, name), "must be above 0")


def _checked_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidPolicy("upstream", url, "must be an http or https URL with a host")
    if parts.query or parts.fragment or parts.username is not None:
        raise InvalidPolicy("upstream", parts.hostname, "must have no query, fragment or password")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        hint = "use https, or an address of this machine"
        raise InvalidPolicy("upstream", url, "would send keys unencrypted", hint=hint)


def host_name(host: str) -> str:
    """The name in a `Host` header, without its port."""
    name, _, port = host.rpartition(":")
    return name if port.isdecimal() else host


def is_loopback(host: str) -> bool:
    """Whether an address or name can only be this machine."""
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
