"""`ullage proxy`: a local gateway for clients that nobody changes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ullage.cli.output import Output
from ullage.exceptions import MissingExtra
from ullage.policy import Policy
from ullage.proxy.proxy_settings import ProxySettings, is_loopback
from ullage.stores import FolderStore

__all__ = ["proxy_command"]


def proxy_command(
    *,
    upstream: Annotated[
        str, Parameter(help="base URL of the provider; default: Anthropic's or OpenAI's own")
    ] = "",
    host: Annotated[
        str, Parameter(help="address to listen on; others than loopback let other machines in")
    ] = "127.0.0.1",
    port: Annotated[int, Parameter(help="port to listen on; 0: a free one")] = 8787,
    ca_file: Annotated[
        Path | None, Parameter(help="certificates to verify the upstream by (PEM)")
    ] = None,
    compaction: Annotated[
        Literal["pass", "extractive", "repair"],
        Parameter(
            help="who answers when the client compacts: the provider; code, without a model; or the provider, completed by code"
        ),
    ] = "extractive",
    levels: Annotated[
        bool, Parameter(help="make room in requests; without it they leave as they came")
    ] = True,
    policy: Annotated[Path | None, Parameter(help="thresholds of the levels (TOML)")] = None,
    state: Annotated[
        Path | None,
        Parameter(help="folder for what must survive a restart; default: ~/.ullage/proxy"),
    ] = None,
) -> int:
    """Relay Anthropic's and OpenAI's APIs on this machine until interrupted."""
    try:
        from ullage.proxy.serving import serve
    except ModuleNotFoundError as exc:
        raise MissingExtra(exc.name or "uvicorn", "proxy") from exc
    settings = ProxySettings(
        upstream=upstream,
        host=host,
        port=port,
        ca_file=ca_file,
        compaction=compaction,
        hand_over=True,
        levels=levels,
        policy=None if policy is None else Policy.load(policy),
        store=FolderStore(state or Path.home() / ".ullage" / "proxy") if levels else None,
    )
    out = Output(as_json=False)
    if not is_loopback(host):
        out.line(f"note: {host} is reachable from other machines, which can use this gateway")
    with contextlib.suppress(KeyboardInterrupt):  # the usual end
        serve(settings, lambda url: _greet(out, url))
    return 0


def _greet(out: Output, url: str) -> None:
    """In one write: whoever waits for the first line may end the program at once."""
    lines = (
        f"listening on {url}; stop with Ctrl-C",
        f"  Claude Code   ANTHROPIC_BASE_URL={url} claude",
        f"  OpenAI SDKs   OPENAI_BASE_URL={url}/v1",
    )
    out.line("\n".join(lines))
