"""Real agent programs in homes of their own, and the gateway as its command.

Everything listens on loopback, and each program is set up not to call home. A program that is not installed skips its tests.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import pytest

from tests.programs.backend import RULES, SUMMARY, Asked, Backend, Turn, rules_in

__all__ = [
    "RULES",
    "SUMMARY",
    "Asked",
    "Backend",
    "ClaudeCode",
    "Codex",
    "Gateway",
    "MiniSwe",
    "Program",
    "Ran",
    "Turn",
    "Vibe",
    "rules_in",
]

SECONDS = 100.0
"""A run that takes longer has failed: the longest takes about 30 s on two busy cores."""


@dataclass(frozen=True)
class Ran:
    """A run that ended: exit code, what it printed, and its session's id (empty: it named none)."""

    code: int
    out: str
    err: str
    session: str

    def __str__(self) -> str:
        return f"exit code {self.code}\n{self.out[-1500:]}\n{self.err[-1500:]}"


class Running:
    """A program that has been started."""

    def __init__(self, program: Program, command: Sequence[str]) -> None:
        self.program = program
        self.process = subprocess.Popen(
            command,
            cwd=program.work,
            env=program.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def interrupt(self) -> Ran:
        """As with Ctrl-C; the end is waited for."""
        self.process.send_signal(signal.SIGINT)
        return self.wait(10)

    def wait(self, seconds: float = SECONDS) -> Ran:
        """The end, by force if it takes longer, as are programs that it left running."""
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            out, err = self.process.communicate()
            err += f"\nkilled after {seconds} s"
        return Ran(self.process.returncode, out, err, self.program.session_of(out))


class Program:
    """A program with a home and a working folder in `folder`.

    Args:
        folder: Empty or not there yet.
        url: Of the back end or the gateway.
        model: Whose rules and window hold.
        environment: Further variables.
    """

    package: ClassVar[str]
    # Where it looks for the project's rules; empty: nowhere.
    rules_file: ClassVar[str] = "AGENTS.md"
    default_model: ClassVar[str]

    def __init__(self, folder: Path, url: str, *, model: str = "", **environment: str) -> None:
        self.executable = self.find()
        if not self.executable:
            pytest.skip(f"{self.package} is not installed")
        self.url, self.model = url, model or self.default_model
        self.home, self.work = folder / "home", folder / "work"
        for each in (self.home, self.work):
            each.mkdir(parents=True, exist_ok=True)
        shared = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        shared |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        self.environment = shared | self.own_environment() | environment
        self.configure()

    @classmethod
    def find(cls) -> str:
        """The program's file; empty: it is not installed."""
        raise NotImplementedError

    def own_environment(self) -> dict[str, str]:
        """Variables that point it at the back end."""
        return {}

    def configure(self) -> None:
        """Write its settings; again where the address has changed."""

    def command(self, prompt: str, resume: str) -> list[str]:
        """The command line; `resume` is a session's id or empty."""
        raise NotImplementedError

    @classmethod
    def shell(cls, command: str) -> tuple[str, dict[str, Any]]:
        """The call by which its model runs a command."""
        return "bash", {"command": command}

    def session_of(self, out: str) -> str:
        """The session's id from what a run printed."""
        found = re.search(r'"(?:session_id|thread_id|sessionId)":\s*"([^"]+)"', out)
        return found[1] if found else ""

    def newest_session(self) -> str:
        """The id of the session that it wrote last, of a run that named none; empty: none is known."""
        return ""

    def with_rules(self) -> None:
        """Put the project's rules where the program reads them."""
        if self.rules_file:
            (self.work / self.rules_file).write_text("\n".join(RULES) + "\n")

    def ullage(self, *arguments: str) -> str:
        """What our command prints in the program's home and working folder; it must succeed."""
        return self.call(sys.executable, "-m", "ullage", *arguments)

    def call(self, *command: str) -> str:
        """What another command prints there; it must succeed."""
        done = subprocess.run(
            command,
            cwd=self.work,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def point_at(self, url: str) -> None:
        """Use another address from the next run on."""
        self.url = url
        self.environment |= self.own_environment()
        self.configure()

    def start(self, prompt: str, *more: str, resume: str = "") -> Running:
        """Start it; `more` are further arguments."""
        return Running(self, [*self.command(prompt, resume), *more])

    def run(self, prompt: str, *more: str, resume: str = "") -> Ran:
        """Run it to its end."""
        return self.start(prompt, *more, resume=resume).wait()

    @classmethod
    def version(cls) -> str:
        """Of the package that brings it."""
        return metadata.version(cls.package)


def _beside(module: str, *parts: str) -> str:
    """A file that a package brings."""
    found = util.find_spec(module)
    path = Path(found.origin).parent.joinpath(*parts) if found and found.origin else None
    return str(path) if path and path.exists() else ""


class ClaudeCode(Program):
    """Claude Code as the Claude Agent SDK bundles it, in print mode."""

    package = "claude-agent-sdk"
    rules_file = "CLAUDE.md"
    default_model = "claude-sonnet-4-5"

    @classmethod
    def find(cls) -> str:
        return _beside("claude_agent_sdk", "_bundled", "claude")

    def own_environment(self) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "sk-ant-scripted",
            "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",  # what it asks of root before it runs tools unasked
        }

    def command(self, prompt: str, resume: str) -> list[str]:
        parts = [self.executable, "-p", prompt, "--output-format", "json"]
        parts += ["--dangerously-skip-permissions"]
        parts += ["--model", self.model] if self.model != "default" else []
        return [*parts, "--resume", resume] if resume else parts

    @classmethod
    def shell(cls, command: str) -> tuple[str, dict[str, Any]]:
        return "Bash", {"command": command, "description": "Run it"}

    @property
    def sessions(self) -> list[Path]:
        """Its session files, without those of sub-agents."""
        return sorted(self.home.glob(".claude/projects/*/*.jsonl"))

    def newest_session(self) -> str:
        return max(self.sessions, key=lambda path: path.stat().st_mtime).stem


class Codex(Program):
    """Codex in exec mode.

    `provider` is the name that its settings give the provider: under "OpenAI" it asks the provider to compact,
    under any other the model.
    """

    package = "openai-codex"
    default_model = "gpt-5"

    def __init__(
        self, folder: Path, url: str, *, provider: str = "ullage", limit: int = 0, **more: str
    ) -> None:
        self.provider, self.limit = provider, limit
        super().__init__(folder, url, **more)

    @classmethod
    def find(cls) -> str:
        return _beside("codex_cli_bin", "bin", "codex")

    def own_environment(self) -> dict[str, str]:
        return {"CODEX_HOME": str(self.home / ".codex"), "OPENAI_API_KEY": "sk-scripted"}

    def configure(self) -> None:
        limit = f"model_auto_compact_token_limit = {self.limit}\n" if self.limit else ""
        text = (
            f'model = "{self.model}"\nmodel_provider = "ullage"\n{limit}'
            "check_for_update_on_startup = false\n\n"
            f'[model_providers.ullage]\nname = "{self.provider}"\nbase_url = "{self.url}/v1"\n'
            'wire_api = "responses"\nenv_key = "OPENAI_API_KEY"\nsupports_websockets = false\n\n'
            "[analytics]\nenabled = false\n\n[feedback]\nenabled = false\n"
        )
        path = self.home / ".codex" / "config.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def command(self, prompt: str, resume: str) -> list[str]:
        parts = [self.executable, "exec"]
        parts += ["resume", resume] if resume else []
        flags = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [*parts, *flags, prompt]

    @classmethod
    def shell(cls, command: str) -> tuple[str, dict[str, Any]]:
        return "exec_command", {"cmd": command}

    @property
    def sessions(self) -> list[Path]:
        """Its rollouts."""
        return sorted(self.home.glob(".codex/sessions/*/*/*/*.jsonl"))


class MiniSwe(Program):
    """mini-swe-agent on the chat completions API."""

    package = "mini-swe-agent"
    rules_file = ""
    default_model = "gpt-4o"
    done = (("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}),)
    """The call by which its model ends a task."""

    @classmethod
    def find(cls) -> str:
        return _beside("minisweagent", "run", "mini.py")

    def own_environment(self) -> dict[str, str]:
        return {
            "OPENAI_API_BASE": f"{self.url}/v1",
            "OPENAI_API_KEY": "sk-scripted",
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_GLOBAL_CONFIG_DIR": str(self.home / ".mini"),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # its price list is not fetched
        }

    def command(self, prompt: str, resume: str) -> list[str]:
        parts = [sys.executable, "-m", "minisweagent.run.mini", "-t", prompt, "-y"]
        return [*parts, "--exit-immediately", "-l", "0", "-m", f"openai/{self.model}"]


class Vibe(Program):
    """Mistral Vibe on the chat completions API; it may stand in an environment of its own, on the PATH."""

    package = "mistral-vibe"
    default_model = "gpt-4o"

    @classmethod
    def find(cls) -> str:
        return shutil.which("vibe") or ""

    def own_environment(self) -> dict[str, str]:
        return {"VIBE_HOME": str(self.home / ".vibe"), "SCRIPTED_KEY": "sk-scripted"}

    def configure(self) -> None:
        text = (
            'active_model = "scripted"\nenable_telemetry = false\nenable_update_checks = false\n'
            "enable_auto_update = false\nauto_compact_threshold = 0\n\n"
            f'[[providers]]\nname = "scripted"\napi_base = "{self.url}/v1"\n'
            'api_key_env_var = "SCRIPTED_KEY"\napi_style = "openai"\nbackend = "generic"\n\n'
            f'[[models]]\nname = "{self.model}"\nprovider = "scripted"\nalias = "scripted"\n'
        )
        path = self.home / ".vibe" / "config.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def command(self, prompt: str, resume: str) -> list[str]:
        parts = [self.executable, "-p", prompt, "--output", "json", "--yolo", "--trust"]
        return [*parts, "--resume", resume] if resume else parts

    @classmethod
    def version(cls) -> str:
        said = subprocess.run(
            [cls.find(), "--version"],
            capture_output=True,
            text=True,
            check=True,
        )
        return said.stdout.split()[-1]


# ---- the gateway ---------------------------------------------------------------------------------


class Gateway:
    """`ullage proxy` in a process of its own.

    Args:
        upstream: URL of the back end.
        state: Folder for its decisions.
        *options: Further arguments of the command.
    """

    def __init__(self, upstream: str, state: Path, *options: str) -> None:
        pytest.importorskip("uvicorn")
        command = [sys.executable, "-m", "ullage", "proxy", "--upstream", upstream, "--port", "0"]
        self.command = [*command, "--state", str(state), "--keep-text", *options]
        self.home = state.parent
        self.url = ""

    def __enter__(self) -> Gateway:
        environment = {**os.environ, "HOME": str(self.home), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        first = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", first)
        if not found:
            first += self.process.communicate()[0]
            raise RuntimeError(f"the gateway did not start: {first}")
        self.url = found[0]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
