"""The options of `palimpsest run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Task = Annotated[str | None, typer.Argument(help="The task; - or nothing reads standard input.")]
OutputFolder = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="Copy the session's files into DIR at the end.")
]
BroughtFolder = Annotated[
    Path | None,
    typer.Option("--dir", "-d", metavar="DIR", help="Start with the files of DIR, without what .gitignore names."),
]
NoIgnore = Annotated[bool, typer.Option("--no-ignore", help="With --dir: every file of DIR.")]
GitUrl = Annotated[str | None, typer.Option(metavar="URL[@REF]", help="Start with the files of a git repository.")]
ModelName = Annotated[
    str | None, typer.Option("--model", "-m", help="The model, as provider/model; default: the server's.")
]
Effort = Annotated[
    Literal["none", "minimal", "low", "medium", "high", "max"] | None,
    typer.Option(
        "--effort",
        "-e",
        metavar="LEVEL",
        help="How much it reasons: none, minimal, low, medium, high or max.",
    ),
]
CompactionPolicy = Annotated[
    str | None,
    typer.Option(metavar="POLICY", help="reactive, threshold, handoff, or settings as JSON."),
]
SystemPrompt = Annotated[str | None, typer.Option(help="Additional instructions.")]
MaxSteps = Annotated[int | None, typer.Option(min=1, help="Max steps of the run.")]
MaxCost = Annotated[float | None, typer.Option(min=0.0001, metavar="USD", help="Max cost in dollars.")]
Title = Annotated[str | None, typer.Option(help="The session's title.")]
SandboxKind = Annotated[str | None, typer.Option(help="docker or bubblewrap.")]
ApprovalPolicy = Annotated[
    str | None,
    typer.Option(metavar="POLICY", help="Which calls need approval: never, always or JSON."),
]
PatchFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write what the run changed to FILE, for git apply; - is standard output."),
]
Remove = Annotated[bool, typer.Option("--rm", help="Delete the session at the end.")]
SchemaFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="JSON Schema of the run's output."),
]
ToolOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--tool",
        metavar="NAME=COMMAND",
        help="A tool that runs here, or @FILE; see the README.",
    ),
]
ImageFiles = Annotated[
    list[Path] | None,
    typer.Option("--image", "-i", metavar="FILE", help="Show the model an image."),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print the answer alone, or the output with --output-schema.")
]
