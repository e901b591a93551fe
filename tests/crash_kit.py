"""Faults in the calls to the system that store and log make, inside one process."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ullage.transcript.log import LogFile

CALLS = ("open", "write", "fsync", "replace", "mkdir", "unlink", "ftruncate")


class Killed(BaseException):
    """The process has ended: nothing that follows has any effect."""


class Faults:
    """Counts system calls, and lets one of them fail, or be the last."""

    def __init__(self, at: int, *, kill: bool) -> None:
        self.at, self.kill, self.count, self.dead = at, kill, 0, False

    def wrap(self, name: str, real: Callable) -> Callable:
        def call(*args: object, **kwargs: object) -> object:
            if self.dead:
                raise Killed
            self.count += 1
            if self.count != self.at:
                return real(*args, **kwargs)
            if name == "write":  # half of it got through
                with suppress(OSError):
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
            if self.kill:
                self.dead = True
                raise Killed
            raise OSError(errno.ENOSPC, "no space left on device")

        return call


@contextmanager
def faulty(at: int, *, kill: bool) -> Iterator[Faults]:
    faults = Faults(at, kill=kill)
    real = {name: getattr(os, name) for name in CALLS}
    defaults = LogFile.__init__.__kwdefaults__
    write = defaults["write"]
    try:
        for name, function in real.items():
            setattr(os, name, faults.wrap(name, function))
        defaults["write"] = os.write
        yield faults
    finally:
        defaults["write"] = write
        for name, function in real.items():
            setattr(os, name, function)
