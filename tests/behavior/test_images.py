"""Images and files in messages: accepted once, sent in each wire format, kept with the session."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from typing import Any

import httpx
import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming as AnthropicRequest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming as OpenAiRequest
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming as ResponsesRequest
from pydantic import TypeAdapter

from tests.behavior.checks import assert_sound
from tests.behavior.harness import ANTHROPIC, OPENAI, RESPONSES, Client, command, of_type
from tests.behavior.pictures import GIF, JPEG, WEBP, image, png, text
from tests.provider import FakeProvider, RecordedRequest, Reply, Text, ToolCall
from tests.provider.images import images_of

pytestmark = pytest.mark.shared_server
REQUESTS: dict[str, TypeAdapter[Any]] = {
    OPENAI: TypeAdapter(OpenAiRequest),
    ANTHROPIC: TypeAdapter(AnthropicRequest),
    RESPONSES: TypeAdapter(ResponsesRequest),
}
MODELS = pytest.mark.parametrize("model", [OPENAI, ANTHROPIC, RESPONSES])


def sent(request: RecordedRequest) -> list[bytes]:
    """The images of a request."""
    return [found.raw for found in images_of(request.body)]


def refused(response: httpx.Response, code: str, status: int = 422) -> dict[str, Any]:
    problem: dict[str, Any] = response.json()
    assert (response.status_code, problem["code"]) == (status, code), problem
    return problem


async def put(client: Client, session_id: str, path: str, data: bytes) -> None:
    response = await client.http.put(f"/v1/sessions/{session_id}/files/{path}", content=data)
    assert response.is_success, response.text


@MODELS
async def test_images_and_files_reach_the_model_in_its_format(
    client: Client, provider: FakeProvider, model: str
) -> None:
    provider.script(Reply(Text("ready")), Reply(Text("seen")))
    session, _ = await client.run("hi", model=model)
    session_id = session["id"]
    inside = png(30, 20, seed=1)
    await put(client, session_id, "docs/in side.png", inside)
    await put(client, session_id, "notes.txt", b"notes")
    pictures = [png(640, 480), JPEG, GIF, WEBP]
    kinds = ["image/png", "image/jpeg", "image/gif", "image/webp"]
    content = [
        text("Compare"),
        *(image(data, kind) for data, kind in zip(pictures, kinds, strict=True)),
        {"type": "image", "path": "docs/in side.png"},
        text("with"),
        {"type": "file", "path": "/workspace/notes.txt"},
    ]
    response = await client.http.post(f"/v1/sessions/{session_id}/queue", json={"content": content})
    assert response.status_code == 202, response.text
    # What was accepted is sent, whatever happens to the file.
    await put(client, session_id, "docs/in side.png", b"other")
    events = await client.until_idle(session_id, session["last_seq"])

    request = provider.requests[-1]
    assert sent(request) == [*pictures, inside]
    REQUESTS[model].validate_python(request.body, strict=False)
    assert provider.refusals == []
    assert request.raw.index(b"Compare") < request.raw.index(b"with\\n[file in the workspace: notes.txt]")

    (queued,) = of_type(events, "message.queued")
    (created,) = of_type(events, "message.created")
    assert all(len(json.dumps(event.data)) < 4_000 for event in (queued, created))
    parts = created.data["message"]["parts"]
    assert [part["type"] for part in parts] == ["text", *["image"] * 5, "text"]
    assert [part["type"] for part in queued.data["content"]] == ["text", *["image"] * 5, "text", "file"]
    found = parts[5]
    assert (found["width"], found["height"], found["bytes"], found["path"]) == (30, 20, len(inside), "docs/in side.png")
    assert found["digest"] == hashlib.sha256(inside).hexdigest()
    stored = await client.http.get(f"/v1/sessions/{session_id}/images/{found['digest']}")
    assert (stored.content, stored.headers["content-type"]) == (inside, "image/png")
    assert stored.headers["content-security-policy"] == "sandbox"
    await assert_sound(client, session_id)


BAD = {
    "invalid_image_data": image(b"") | {"data": "data:image/png;base64,AAAA"},
    "image_type_mismatch": image(JPEG),
    "image_too_large": image(png(padding=5 * 1024 * 1024)),
    "path_outside_workspace": {"type": "image", "path": "../../etc/passwd"},
    "path_not_found": {"type": "file", "path": "missing.txt"},
    "path_not_a_file": {"type": "image", "path": "folder"},
}


async def test_each_bad_part_is_refused_with_its_code(client: Client, provider: FakeProvider) -> None:
    session = await client.create()
    path = f"/v1/sessions/{session['id']}/queue"
    await put(client, session["id"], "folder/text.png", b"no image")
    for code, part in BAD.items():
        response = await client.http.post(path, json={"content": [text("see"), part]})
        assert refused(response, code)["part"] == 1, code
    unreal = {"content": [{"type": "image", "path": "folder/text.png"}]}
    refused(await client.http.post(path, json=unreal), "image_type_mismatch")
    refused(await client.http.post(path, json={"content": [image(png())] * 21}), "too_many_images")
    for part, field in (
        ({"type": "image", "path": "a", "data": "AAAA"}, "content.0.image"),
        ({"type": "image", "media_type": "image/bmp", "data": "AAAA"}, "content.0.image.media_type"),
        ({"type": "video"}, "content.0"),
        ({"type": "text", "text": " "}, "content.0.text.text"),
        ({"type": "file", "path": "a", "text": "b"}, "content.0.file.text"),
    ):
        problem = refused(await client.http.post(path, json={"content": [part]}), "validation_error")
        assert [error["field"] for error in problem["errors"]] == [field]
    assert (await client.get(path))["items"] == []
    assert provider.requests == []


async def test_a_link_out_of_the_workspace_is_refused(client: Client, provider: FakeProvider, sandbox: str) -> None:
    provider.script(Reply(command("ln -s /etc/passwd link.png")), Reply(Text("Done.")))
    session, _ = await client.run("task")
    content = [{"type": "image", "path": "link.png"}]
    response = await client.http.post(f"/v1/sessions/{session['id']}/queue", json={"content": content})
    refused(response, "path_outside_workspace")


async def test_a_task_has_images_also_of_its_archive(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("one")), Reply(Text("two")))
    data = png(3, 4)
    made = await client.http.post("/v1/sessions", json={"model": OPENAI, "task": [text("See\nthis"), image(data)]})
    assert made.status_code == 201, made.text
    await client.until_idle(made.json()["id"])
    assert (made.json()["title"], made.json()["task"]) == ("See", "See\nthis\n[image image/png 3×4]")
    assert sent(provider.requests[0]) == [data]

    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("shot.png")
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    body = json.dumps({"model": OPENAI, "task": [{"type": "image", "path": "shot.png"}]})
    files: dict[str, Any] = {"session": (None, body, "application/json"), "archive": ("a.tar", archive.getvalue())}
    made = await client.http.post("/v1/sessions", files=files)
    assert made.status_code == 201, made.text
    await client.until_idle(made.json()["id"])
    assert made.json()["task"] == "[image shot.png image/png 3×4]"
    assert sent(provider.requests[1]) == [data]
    missing = {"model": OPENAI, "task": [{"type": "file", "path": "shot.png"}]}
    refused(await client.http.post("/v1/sessions", json=missing), "path_not_found")


async def test_forks_exports_and_edits_keep_images(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("seen")), Reply(Text("again")))
    data, other = png(8, 6), png(9, 7)
    session, _ = await client.run([text("see"), image(data)])
    fork = (await client.http.post(f"/v1/sessions/{session['id']}/fork", json={})).json()
    assert (await client.http.delete(f"/v1/sessions/{session['id']}")).status_code == 204
    digest = hashlib.sha256(data).hexdigest()
    assert (await client.http.get(f"/v1/sessions/{session['id']}/images/{digest}")).status_code == 404
    await client.say(fork["id"], "once more", fork["last_seq"])
    assert sent(provider.requests[-1]) == [data]

    for form, where in (("openai", ("image_url", "url")), ("anthropic", ("source", "data"))):
        page = await client.get(f"/v1/sessions/{fork['id']}/messages", format=form)
        (block,) = [b for b in page["items"][0]["content"] if b["type"].startswith("image")]
        assert block[where[0]][where[1]].endswith(base64.b64encode(data).decode())
        history = {"format": form, "messages": page["items"]}
        provider.script(Reply(Text("imported")))
        imported = await client.create("go on", history=history)
        await client.until_idle(imported["id"])
        assert sent(provider.requests[-1]) == [data]

    await client.http.post(f"/v1/sessions/{fork['id']}/cancel")
    held = await client.create()
    place = f"/v1/sessions/{held['id']}/queue"
    # A retry is the same message, another image is not.
    identity = {"id": "0199a000-0000-7000-8000-000000000001"}
    provider.script(Reply(Text("first")))
    for _ in range(2):
        answer = await client.http.post(place, json={"content": [image(data)], **identity})
        assert answer.status_code == 202, answer.text
    refused(await client.http.post(place, json={"content": [image(other)], **identity}), "id_in_use", 409)
    await client.until_idle(held["id"])


@MODELS
async def test_the_model_is_shown_an_image_that_it_reads(client: Client, provider: FakeProvider, model: str) -> None:
    session = await client.create(model=model)
    data = png(1_000, 750)
    await put(client, session["id"], "shot.png", data)
    await put(client, session["id"], "large.png", png(padding=6_000_000))
    read = [ToolCall("read_file", {"path": path}) for path in ("shot.png", "large.png")]
    provider.script(Reply(Text("I look."), *read), Reply(Text("A page.")))
    events = await client.say(session["id"], "look at both")

    request = provider.requests[-1]
    assert sent(request) == [data]
    REQUESTS[model].validate_python(request.body, strict=False)
    assert provider.refusals == []
    shown, large = sorted(of_type(events, "tool.result"), key=lambda event: str(event.data["status"]))
    assert shown.data["output"] == f"[image/png, 1000×750 pixels, {len(data)} bytes]"
    (part,) = shown.data["images"]
    assert (part["path"], part["of_call"], part["tokens"]) == ("shot.png", shown.data["call_id"], 1_000)
    assert (large.data["status"], "at most 5,242,880 can be shown" in large.data["output"]) == ("error", True)
    context = await client.get(f"/v1/sessions/{session['id']}/context")
    assert [part["type"] for part in context["messages"][2]["message"]["parts"]] == [
        "tool_result",
        "tool_result",
        "image",
    ]
    await assert_sound(client, session["id"])


@MODELS
async def test_a_model_that_refuses_images_gets_texts(client: Client, provider: FakeProvider, model: str) -> None:
    # A name of its own, since the server remembers it.
    model = model.replace("/model", "/blind")
    provider.configure(blind_models=frozenset({"blind"}))
    provider.script(Reply(Text("no idea")), Reply(Text("still none")), Reply(Text("none")))
    content: Any = [text("What is it?"), image(png(8, 6))]
    session, events = await client.run(content, model=model)

    assert session["outcome"] == "completed"
    label = "[image image/png 8×6: left out, since this model cannot see images]"
    assert label in json.loads(json.dumps(str(provider.requests[-1].body)))
    assert [refusal.rule for refusal in provider.refusals] == ["blind"]
    (retried,) = of_type(events, "step.retrying")
    assert retried.data["code"] == "reshape_drop_images"
    # It is remembered, for this session and for others.
    await client.say(session["id"], "And now?", session["last_seq"])
    again, _ = await client.run(content, model=model)
    assert again["outcome"] == "completed"
    assert len(provider.refusals) == 1
    context = await client.get(f"/v1/sessions/{again['id']}/context")
    assert label in str(context["messages"][0])
    assert context["tokens"] < 2_500


@MODELS
async def test_a_broken_image_costs_one_refusal(client: Client, provider: FakeProvider, model: str) -> None:
    broken = image(png(5, 5, seed=9))
    provider.configure(broken_images=frozenset({broken["data"]}))
    provider.script(Reply(Text("unreadable")), Reply(Text("better")))
    session, events = await client.run([text("See"), broken], model=model)
    assert session["outcome"] == "completed"
    (cleared,) = of_type(events, "prune.completed")
    assert (cleared.data["reason"], len(cleared.data["image_ids"])) == ("images", 1)
    good = png(6, 6)
    await client.http.post(f"/v1/sessions/{session['id']}/queue", json={"content": [image(good)]})
    await client.until_idle(session["id"], session["last_seq"])
    assert sent(provider.requests[-1]) == [good]
    assert len(provider.refusals) == 1
    await assert_sound(client, session["id"])


@MODELS
@pytest.mark.slow
async def test_fifty_images_never_overflow_a_session(client: Client, provider: FakeProvider, model: str) -> None:
    pictures = [png(1_500, 1_500, seed, padding=1_000_000 if seed % 5 == 0 else 0) for seed in range(50)]
    session = await client.create(model=model)
    last = 0
    for start in range(0, 50, 5):
        provider.script(Reply(Text("noted")))
        content = [text(f"Pictures from {start}"), *map(image, pictures[start : start + 5])]
        response = await client.http.post(f"/v1/sessions/{session['id']}/queue", json={"content": content})
        assert response.status_code == 202, response.text
        events = await client.until_idle(session["id"], last)
        assert events[-1].data["outcome"] == "completed"
        last = events[-1].id or 0
        assert sent(provider.requests[-1])[-5:] == pictures[start : start + 5]

    assert provider.refusals == []
    assert all(len(sent(request)) <= 20 for request in provider.requests)
    assert len(provider.requests) == 10
    events = await assert_sound(client, session["id"])
    cleared = [seq for event in of_type(events, "prune.completed") for seq in event.data.get("image_ids", ())]
    kept = len(sent(provider.requests[-1]))
    assert len(cleared) == 50 - kept

    # What was cleared is marked, and shown again on demand, in a fork too.
    fork = (await client.http.post(f"/v1/sessions/{session['id']}/fork", json={})).json()
    first = (await client.messages(fork["id"]))[0]
    assert all(part["compacted_at"] for part in first["parts"][1:])
    provider.script(Reply(ToolCall("recall", {"call_id": first["id"]})), Reply(Text("those again")))
    await client.say(fork["id"], "What was in the first ones?", fork["last_seq"])
    request = provider.requests[-1]
    assert f'recall("{first["id"]}") shows it again' in str(request.body).replace('\\"', '"')
    assert sent(request)[-5:] == pictures[:5]
    assert provider.refusals == []
