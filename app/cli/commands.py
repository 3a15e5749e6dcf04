"""The commands and their options. Nothing heavy is imported here: each command imports its work when it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from app.cli.database_commands import database
from app.cli.listing import Listing, chosen
from app.cli.program import OF_PROGRAM, Commands, InstallCompletion, Man, ShowCompletion, Version, prepare_completion
from app.cli.protocol_commands import serve_acp, serve_mcp
from app.cli.run_options import (
    ApprovalPolicy,
    BroughtFolder,
    CompactionPolicy,
    Effort,
    GitUrl,
    ImageFiles,
    MaxCost,
    MaxSteps,
    ModelName,
    NoIgnore,
    OutputFolder,
    PatchFile,
    Quiet,
    Remove,
    SandboxKind,
    SchemaFile,
    SystemPrompt,
    Task,
    Title,
    ToolOptions,
)
from app.cli.session_commands import CallId, Fields, Json, JsonLines, Key, Policy, Server, SessionId, sessions
from app.cli.startup import loading, prepare_to_serve

if TYPE_CHECKING:
    from app.cli.client import Client


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Runs coding agents that never run out of context.\n\n`palimpsest doctor` checks this machine, `palimpsest"
    " run` runs one task, and `palimpsest serve` starts the server that `sessions`, `fork`, `compact`, `approvals`,"
    " `approve` and `deny` use. Settings are environment variables or lines of a `.env` file in the working directory.",
)
app.add_typer(sessions, name="sessions")
app.add_typer(database, name="db")


@app.callback()
def root(
    version: Version = False,
    man: Man = False,
    install_completion: InstallCompletion = None,
    show_completion: ShowCompletion = None,
) -> None:
    pass


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; default: PALIMPSEST_HOST or 127.0.0.1.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; default: PALIMPSEST_PORT or 8000.")] = None,
    role: Annotated[
        str | None, typer.Option(help="In a cluster: all, api or worker; default: PALIMPSEST_ROLE or all.")
    ] = None,
) -> None:
    """Start the server and print an example request.

    Ctrl-C stops it. Interrupted sessions continue at the next start; with PALIMPSEST_RECOVER=park they wait for a
    resume.
    """
    from app.cli.startup import load_settings

    # First: invalid settings are reported in a third of the time that the server takes to load.
    settings = load_settings(host=host, port=port, role=role)
    with loading():
        from app.cli.serve import serve as start
    prepare_to_serve()
    start(settings)


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def run(
    task: Task = None,
    output: OutputFolder = None,
    folder: BroughtFolder = None,
    no_ignore: NoIgnore = False,
    git: GitUrl = None,
    model: ModelName = None,
    effort: Effort = None,
    compaction: CompactionPolicy = None,
    system_prompt: SystemPrompt = None,
    max_steps: MaxSteps = None,
    max_cost: MaxCost = None,
    title: Title = None,
    sandbox: SandboxKind = None,
    approval: ApprovalPolicy = None,
    patch: PatchFile = None,
    remove: Remove = False,
    output_schema: SchemaFile = None,
    tool: ToolOptions = None,
    images: ImageFiles = None,
    quiet: Quiet = False,
    json: JsonLines = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Run a task and follow it until it ends.

    Uses the given server or the one on this machine, or starts one for this task. In a terminal, a line that you type
    steers the run, and you are asked about calls that need approval; without one, or with --json, the command that
    decides is printed to standard error. Ctrl-C cancels the run; a second Ctrl-C quits at once. Exit status: 0
    completed, 1 failed, 2 usage, 3 limit reached, 4 a call was denied because nobody decided in time, 130 cancelled,
    141 output closed.
    """
    from app.cli.packing import Folder
    from app.cli.run import TaskOptions, run_task

    asked = (model, system_prompt, max_steps, title, sandbox, approval, effort, compaction, git, output_schema, tool)
    options = TaskOptions(*asked, tuple(images or ()), max_cost)
    brought = None if folder is None else Folder(folder, all=no_ignore)
    raise typer.Exit(
        run_task(
            task,
            options,
            folder=brought,
            output=output,
            patch=patch,
            remove=remove,
            as_json=json,
            quiet=quiet,
            server=server,
            key=key,
        )
    )


@app.command()
def attach(
    session: SessionId,
    after: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="SEQ", help="Show the events after this one; default: from the start of the current run."
        ),
    ] = None,
    json: JsonLines = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Follow a session's run and steer it: a line that you type is sent to the session.

    Also asks about calls that need approval. Ctrl-C detaches; the run continues. Shows the last run of an idle session.
    The exit status is as for `palimpsest run`.
    """
    from app.cli import attach as work
    from app.cli.sessions import connected

    raise typer.Exit(connected(server, key, lambda client: work.attach(client, session, after, json)))


@app.command()
def compact(
    session: SessionId,
    policy: Annotated[
        Policy | None, typer.Option(help="The policy for this round only; default: the session's.")
    ] = None,
    instructions: Annotated[str | None, typer.Option(metavar="TEXT", help="What the summary should keep.")] = None,
    redo: Annotated[bool, typer.Option("--redo", help="Replace a round that was made without a model.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would do; change nothing.")] = False,
    json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Compact a session's context now and show the result.

    A running session does it between two steps. Nothing is lost: the history keeps all messages, and
    `palimpsest sessions revert` reverts the round. Exit status 1 if the round changed nothing.
    --redo replaces a round that was summarized without a model, which `palimpsest sessions show` reports; exit status 1
    also if the new round is made without one again. Ctrl-C stops waiting; the round continues.
    """
    from app.cli import rounds as work
    from app.cli.sessions import connected

    def make(client: Client) -> Coroutine[Any, Any, int]:
        return work.compact(client, session, policy, instructions, redo=redo, dry_run=dry_run, as_json=json)

    raise typer.Exit(connected(server, key, make))


@app.command()
def fork(
    session: SessionId,
    after: Annotated[
        str | None, typer.Option(metavar="MESSAGE", help="The last message to copy; default: all messages.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The fork's title; default: the session's.")] = None,
    json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Create a session with another session's history and a copy of its files; the original continues."""
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.fork(client, session, after, title, json))


@app.command(cls=Listing)
def approvals(
    session: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="The session's id, or enough of its start or end; default: all sessions."),
    ] = None,
    json: Fields = None,
    server: Server = None,
    key: Key = None,
) -> None:
    """List the calls that wait for approval, of all sessions or of one.

    Shows the short id that `palimpsest approve` and `palimpsest deny` take, and the time left to decide.
    """
    from app.cli import approvals as work
    from app.cli.sessions import connected
    from app.runtime.values.queue import PendingApproval

    fields = chosen(json, PendingApproval)
    if session is None:
        connected(server, key, lambda client: work.show_all(client, fields))
    else:
        connected(server, key, lambda client: work.show(client, session, fields))


@app.command()
def approve(session: SessionId, call: CallId, server: Server = None, key: Key = None) -> None:
    """Approve a waiting call. It starts when all calls of its message are decided."""
    from app.cli import approvals as work
    from app.cli.sessions import connected

    connected(server, key, lambda client: work.answer(client, session, call, "approve", None))


@app.command()
def deny(
    session: SessionId,
    call: CallId,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="The reason, shown to the model.")] = None,
    server: Server = None,
    key: Key = None,
) -> None:
    """Deny a waiting call: it does not run, and the model sees the denial."""
    from app.cli import approvals as work
    from app.cli.sessions import connected

    connected(server, key, lambda client: work.answer(client, session, call, "deny", reason))


@app.command()
def prune(
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="AGE", help="Time since the last update, such as 12h or 7d; 0 means all idle ones."
        ),
    ] = "7d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the sessions without deleting them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Delete idle sessions that have not been used for a while.

    Each is deleted with its history, files and sandbox. Sessions that are running or waiting are skipped. Lists the
    sessions and asks before deleting them. Exit status 1 if a session could not be deleted or the answer was no, 2 if
    there is no terminal to ask on and --yes is missing.
    """
    from app.cli.sessions import run_prune

    raise typer.Exit(run_prune(older_than, server, key, yes=yes, dry_run=dry_run))


@app.command("eval")
def evaluate(
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The model, as provider/model; default: PALIMPSEST_MODEL.")
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="A model that also judges each answer; answers are always checked for expected words."
        ),
    ] = None,
    policies: Annotated[
        str | None, typer.Option(metavar="NAMES", help="The policies to compare, comma-separated; default: all.")
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="A recorded history, or the name of a packaged one; default: the packaged ones. Repeatable.",
        ),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            min=4096,
            help="Context window in tokens; default: one that each history just fills, or a sixth of a long history.",
        ),
    ] = None,
    junk: Annotated[
        bool,
        typer.Option("--junk", help="Call no model: replay long histories with summaries without facts."),
    ] = False,
    oracle: Annotated[
        bool,
        typer.Option("--oracle", help="Call no model: replay long histories with perfect summaries."),
    ] = False,
    json: Json = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the report to FILE as JSON.")] = None,
) -> None:
    """Measure what a model still knows after compaction, under each policy.

    Replays recorded histories, compacts each one once and asks the model questions about the earlier messages. Needs no
    server but makes model calls, and prints their number first. With --junk or --oracle, replays long histories over
    ten rounds and more without a model: what the context keeps, what the tools find, and the cost. Exit status: 0 if at
    least one row was completed, 2 for an invalid option or a model that cannot be called, else 1.
    """
    if junk or oracle:
        from app.cli.eval_growth import run_growth, setup_of

        kinds = [name for name, chosen in (("junk", junk), ("oracle", oracle)) if chosen]
        setup = setup_of(kinds, policies, history or [], window, model or judge)
        raise typer.Exit(run_growth(setup, as_json=json, out=out))
    from app.cli.evaluate import run_evaluation

    raise typer.Exit(run_evaluation(model, judge, policies, history or [], window, as_json=json, out=out))


app.command("acp")(serve_acp)
app.command("mcp")(serve_mcp)


@app.command(cls=Listing)
def nodes(json: Fields = None, server: Server = None, key: Key = None) -> None:
    """List the nodes of a cluster: role, status, sessions, and when each was last seen."""
    from app.cli import nodes as work
    from app.cli.sessions import connected
    from app.runtime.values.server import NodeView

    fields = chosen(json, NodeView)
    connected(server, key, lambda client: work.show(client, fields))


@app.command()
def doctor(json: Json = False, server: Server = None, key: Key = None) -> None:
    """Check this machine and a running server, and suggest fixes.

    Asks the given server or the one on this machine for its version, its parts, its models and its nodes. Exit status 1
    if something required is missing.
    """
    from app.cli.doctor import examine

    raise typer.Exit(examine(server, key, as_json=json))


for _group in (app, sessions, database):
    for _command in _group.registered_commands:
        # One line per paragraph, wrapped by the terminal: Typer would keep the line breaks of the source.
        _paragraphs = cleandoc(_command.callback.__doc__ or "").split("\n\n") if _command.callback else []
        _command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in _paragraphs)


@cache
def command_line() -> Callable[..., Any]:
    """The program with all its commands, which takes as long to make as many a command."""
    return get_command(app)


def main(*, default: str | None = None) -> None:
    """Runs the command in the program's arguments, or `default` if they are empty or start with an option."""
    arguments = sys.argv[1:]
    first = arguments[0] if arguments else "-"
    if default is not None and first.startswith("-") and first.split("=")[0] not in OF_PROGRAM:
        arguments.insert(0, default)
    prepare_completion()
    command_line()(arguments, prog_name="palimpsest")
