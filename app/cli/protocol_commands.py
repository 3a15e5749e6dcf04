"""The commands that serve a protocol on standard input and output. Each fetches its work when it runs."""

from __future__ import annotations

from app.cli.run_options import ApprovalPolicy, Effort, ModelName, SandboxKind
from app.cli.session_commands import Key, Server


def serve_acp(
    model: ModelName = None,
    effort: Effort = None,
    sandbox: SandboxKind = None,
    approval: ApprovalPolicy = None,
    server: Server = None,
    key: Key = None,
) -> None:
    """Serve an editor that speaks the Agent Client Protocol on standard input and output.

    For the configuration of an editor; see docs/editors.md. The editor's folder is copied into a session, and what a
    prompt has changed is applied to the folder. Uses the given server or the one on this machine, or starts one that
    ends with this command.
    """
    from app.cli.run import TaskOptions
    from app.cli.screen import CliError

    try:
        from app.cli.acp import serve_acp as start
    except ModuleNotFoundError as error:
        raise CliError(
            "The package agent-client-protocol is not installed; its releases exist for Python up to 3.14.",
            code="acp_unavailable",
        ) from error
    options = TaskOptions(model=model, effort=effort, sandbox=sandbox, approval=approval)
    start(options, server, key)


def serve_mcp(server: Server = None, key: Key = None) -> None:
    """Serve MCP on standard input and output: tools for another agent to start sessions and get their results.

    For the configuration of an MCP client; see docs/mcp.md. Uses the given server or the one on this machine, or starts
    one that ends with this command. Ends with its input, or at SIGTERM; sessions of another server keep running.
    """
    from app.cli.mcp_server import serve_mcp as start

    start(server, key)
