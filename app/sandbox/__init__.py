"""Where commands run and files live: a workspace per session, isolated from the host.

`open_factory` finds the kind of sandbox that this machine supports; the rest goes through the protocols of `base`.
"""

from app.sandbox.base import (
    WORKSPACE,
    ExecResult,
    FileInfo,
    OnOutput,
    Sandbox,
    SandboxConfig,
    SandboxFactory,
    SandboxLimits,
    Stream,
)
from app.sandbox.detect import SandboxKind, open_factory

__all__ = [
    "WORKSPACE",
    "ExecResult",
    "FileInfo",
    "OnOutput",
    "Sandbox",
    "SandboxConfig",
    "SandboxFactory",
    "SandboxKind",
    "SandboxLimits",
    "Stream",
    "open_factory",
]
