"""The main job: a task becomes files, over both wire formats and in both sandboxes."""

from __future__ import annotations

import io
import tarfile

import pytest

from tests.behavior.combinations import IN_BOTH_SANDBOXES, first_of
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, command, durable, of_type
from tests.provider import FakeProvider, Reply, Text, ToolCall

pytestmark = pytest.mark.shared_server


@IN_BOTH_SANDBOXES
@first_of(model=[OPENAI, ANTHROPIC])
async def test_a_task_creates_files_that_are_returned_byte_for_byte(
    client: Client, provider: FakeProvider, sandbox: str, model: str
) -> None:
    provider.script(
        Reply(
            Text("I begin."),
            ToolCall("write_file", {"path": "src/a.txt", "content": "ä\n\ttab\r\n"}),
            ToolCall("write_file", {"path": "b.txt", "content": ""}),
        ),
        Reply(ToolCall("read_file", {"path": "src/a.txt"}), ToolCall("list_directory", {"path": "."})),
        Reply(command("printf '\\000\\001\\377' > raw.bin; echo out; echo err >&2")),
        Reply(ToolCall("search_files", {"pattern": "tab"}), ToolCall("list_directory", {"path": "src"})),
        Reply(Text("Done.")),
    )

    session, events = await client.run("make the files", model=model)

    assert provider.refusals == []
    assert (session["status"], session["outcome"], session["steps"]) == ("idle", "completed", 5)
    assert [event.id for event in durable(events)] == list(range(1, session["last_seq"] + 1))
    results = [event.data["status"] for event in of_type(events, "tool.result")]
    assert results == ["completed"] * 7
    files = f"/v1/sessions/{session['id']}/files"
    expected = {"src/a.txt": "ä\n\ttab\r\n".encode(), "b.txt": b"", "raw.bin": b"\x00\x01\xff"}
    for path, content in expected.items():
        assert (await client.http.get(f"{files}/{path}")).content == content
    archive = (await client.http.get(f"/v1/sessions/{session['id']}/archive")).content
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = {m.name: tar.extractfile(m).read() for m in tar.getmembers() if m.isfile()}  # type: ignore[union-attr]
    assert found == expected
