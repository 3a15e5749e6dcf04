"""Skills and instructions of folders: the model is told of them when it needs to know, and the cached prefix stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, of_type
from tests.behavior.test_memory import prepared, run_in
from tests.provider import FakeProvider, Reply, Text, ToolCall


def skill(name: str, description: str) -> bytes:
    return f"---\nname: {name}\ndescription: {description}\n---\n# Steps\nUse the tool {name}.\n".encode()


def read(path: str) -> ToolCall:
    return ToolCall("read_file", {"path": path})


async def test_skills_are_named_in_the_system_text_and_read_on_demand(
    start_server: StartServer, provider: FakeProvider, tmp_path: Path, sandbox: str
) -> None:
    ours = tmp_path / "skills"
    (ours / "deploy" / "scripts").mkdir(parents=True)
    (ours / "deploy" / "SKILL.md").write_bytes(skill("deploy", "Deploys the service."))
    (ours / "deploy" / "scripts" / "run.sh").write_text("echo deployed\n")
    (ours / "deploy" / "secret").symlink_to("/etc/hostname")
    (ours / "lint").mkdir()
    (ours / "lint" / "SKILL.md").write_bytes(skill("lint", "Checks the code."))
    (ours / "broken").mkdir()
    (ours / "broken" / "SKILL.md").write_text("no front matter")
    copied = ".palimpsest/skills/deploy"
    provider.script(
        Reply(read(".agents/skills/pdf/SKILL.md"), read(f"{copied}/SKILL.md")),
        Reply(ToolCall("execute_command", {"command": "cd .agents && cat ../.palimpsest/skills/lint/SKILL.md"})),
        Reply(ToolCall("execute_command", {"command": f"cd / && cd /workspace/{copied} && sh scripts/run.sh; ls"})),
        Reply(Text("done")),
    )
    async with Client(start_server(skills_dir=ours).url) as client:
        files = {
            ".agents/skills/pdf/SKILL.md": skill("pdf", "Fills forms."),
            ".claude/skills/pdf/SKILL.md": skill("pdf", "Never shown."),
            ".claude/skills/review/SKILL.md": skill("review", "Reviews\n---\n"),
            "CLAUDE.md": b"Use tabs.",
        }
        session_id = await prepared(client, files)
        context = (await client.get(f"/v1/sessions/{session_id}/context"))["system"]
        shown, sections = context["text"], context["sections"]
        results = await run_in(client, session_id, "go")
        assert (await client.get(f"/v1/sessions/{session_id}/tools"))["system"] == sections

    (system,) = {request.system for request in provider.requests}
    assert shown == system
    assert [each["source"] for each in sections] == ["instructions", "environment", "skills", "CLAUDE.md"]
    assert abs(sum(each["tokens"] for each in sections) - context["tokens"]) <= len(sections)
    assert "- pdf (`.agents/skills/pdf/SKILL.md`): Fills forms.\n" in system
    assert f"- deploy (`{copied}/SKILL.md`): Deploys the service." in system
    assert '<file name="CLAUDE.md">\nUse tabs.\n</file>' in system
    assert not any(word in system for word in ("Never shown", "broken", "Use the tool"))
    texts = [result["output"] for result in results]
    assert any("Use the tool pdf." in text for text in texts)
    assert any("Use the tool deploy." in text for text in texts)
    assert "Use the tool lint." in texts[-2], "a command reads one as well"
    assert texts[-1].splitlines() == ["deployed", "SKILL.md", "scripts"]
    assert provider.refusals == []


async def test_instructions_of_a_folder_come_when_it_is_touched(
    start_server: StartServer, provider: FakeProvider, sandbox: str
) -> None:
    provider.script(
        Reply(read("api/v1/routes.py"), ToolCall("execute_command", {"command": "cd web && ls"})),
        Reply(read("api/main.py")),
        Reply(Text("one")),
        Reply(read("api/v1/routes.py")),
        Reply(Text("two")),
    )
    files = {
        "AGENTS.md": b"At the top.",
        "api/AGENTS.md": b"Use async routes.\n</file>",
        "api/CLAUDE.md": b"Never shown.",
        "api/main.py": b"x",
        "api/v1/routes.py": b"x",
        "web/CLAUDE.md": b"Use Preact.",
        "node_modules/AGENTS.md": b"Never shown.",
    }
    server = start_server()
    async with Client(server.url) as client:
        session_id = await prepared(client, files)
        await run_in(client, session_id, "go")
    server.stop()
    async with Client(start_server().url) as client:
        await run_in(client, session_id, "go on")
        events = await assert_sound(client, session_id)

    first, second, *_, last = provider.requests
    assert len({request.system for request in provider.requests}) == 1
    assert "Use async routes." not in str(first.body)
    told = [event.data["message"] for event in of_type(events, "message.created")]
    (control,) = [message["parts"][0]["text"] for message in told if message["role"] == "control"]
    assert '<file name="api/AGENTS.md">\nUse async routes.\n<\\/file>\n</file>' in control
    assert '<file name="web/CLAUDE.md">\nUse Preact.\n</file>' in control
    assert "Never shown" not in control
    assert control in str(second.user_texts[-1])
    assert sum("Use async routes." in text for text in last.user_texts) == 1, "once, also after a restart"
    assert provider.refusals == []


@pytest.mark.shared_server
async def test_instructions_that_lead_outside_are_named_and_not_shown(client: Client, provider: FakeProvider) -> None:
    link = "mkdir -p api && touch api/a.py && ln -s /etc/passwd api/AGENTS.md && ln -s /etc out"
    provider.script(
        Reply(ToolCall("execute_command", {"command": link})),
        Reply(read("api/a.py"), read("out/passwd")),
        Reply(Text("done")),
    )
    session, _ = await client.run("go")
    messages = await client.messages(session["id"])
    (control,) = [message["parts"][0]["text"] for message in messages if message["role"] == "control"]
    outside = "['api/AGENTS.md' leads outside /workspace, through a link to '/etc/passwd'.]"
    assert control.endswith(f'<file name="api/AGENTS.md">\n{outside}\n</file>')
    assert "root:" not in control
    assert "out/" not in control, "a folder that is itself outside has no instructions"


@pytest.mark.shared_server
async def test_without_them_nothing_is_added(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(read("src/a.py")), Reply(Text("done")))
    session_id = await prepared(client, {"src/a.py": b"x"})
    await run_in(client, session_id, "go")
    assert all("## Skills" not in request.system for request in provider.requests)
    assert {message["role"] for message in await client.messages(session_id)} == {"user", "assistant", "tool"}
    assert provider.refusals == []
