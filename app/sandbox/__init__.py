"""Where commands run and files lie: a workspace for each session, kept away from the host.

`open_factory` finds the kind of sandbox that the machine can make; all else goes through the protocols of `base`.
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
