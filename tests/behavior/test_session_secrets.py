"""Secrets of a session: commands have them, and nothing that they print shows them."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from tests.behavior.harness import ANTHROPIC, OPENAI, Client, RunningServer, command, of_type
from tests.behavior.process import ServerProcess
from tests.databases import in_cluster, stored_rows
from tests.provider import FakeProvider, Reply, Text, ToolCall
from tests.receiver import receiving

CANARY = "cAnary/+=7f3a9c tail&x"
FORMS = {
    CANARY,
    CANARY.encode().hex(),
    CANARY.encode().hex().upper(),
    quote(CANARY, safe=""),
    quote(CANARY),
    quote_plus(CANARY),
    *(
        encode(b"x" * before + CANARY.encode()).decode()[4:-4]
        for encode in (b64encode, urlsafe_b64encode)
        for before in range(3)
    ),
}
VIEWS = (
    *("", "/messages", "/messages?format=openai", "/messages?format=anthropic", "/context", "/log", "/secrets"),
    *("/steps", "/changes"),
)
HEX = "od -An -v -tx1 | tr -d ' \\n'"
PRINTS = (
    'echo "$TOKEN"; echo "error: $TOKEN" >&2',
    'printf %s "$TOKEN" | base64 -w0',
    'printf %s "x$TOKEN" | base64 -w0; echo; printf %s "xy$TOKEN" | base64 -w0 | tr +/ -_',
    f'printf %s "$TOKEN" | {HEX}; printf %s "$TOKEN" | {HEX} | tr a-f A-F',
    "printf %s \"$TOKEN\" | sed 's,%,%25,g; s,/,%2F,g; s,+,%2B,g; s,=,%3D,g; s, ,%20,g; s,&,%26,g'",
    'printf %s "${TOKEN%????????}"; sleep 0.1; printf %s "${TOKEN#"${TOKEN%????????}"}"',
    'i=0; while [ $i -lt 3000 ]; do echo "$i $TOKEN"; i=$((i+1)); done',
    'echo "$TOKEN" > leak.txt; cp leak.txt .gitignore; cat /proc/*/cmdline; ls /proc/self/fd; exit 3',
)


async def printed(client: Client, provider: FakeProvider, model: str) -> str:
    """The id of a session whose commands have printed the secret, and whose tools have shown it."""
    provider.script(
        *(Reply(command(text)) for text in PRINTS),
        Reply(ToolCall("read_file", {"path": "leak.txt"}), ToolCall("search_files", {"pattern": "ary/"})),
        Reply(Text("done")),
    )
    session, events = await client.run("print", model=model, secrets={"TOKEN": CANARY})
    results = of_type(events, "tool.result")
    assert session["outcome"] == "completed"
    assert sorted(results[0].data["output"].splitlines()) == ["[secret TOKEN]", "error: [secret TOKEN]"]
    assert all("[secret TOKEN]" in event.data["output"] for event in results[:7])
    assert "[secret TOKEN]" in results[8].data["output"]
    assert results[7].data["output"].endswith("0\n1\n2\n3\n[exit code 3]")
    seen = json.dumps([event.data for event in events])
    assert not [form for form in FORMS if form in seen]
    return str(session["id"])


def inflated(repository: Path) -> str:
    """All that the checkpoints of a session contain."""
    cat = ["git", f"--git-dir={repository}", "cat-file", "--batch-all-objects", "--batch"]
    return subprocess.run(cat, check=True, capture_output=True).stdout.decode("latin-1")


def files_outside_workspaces(folder: Path) -> list[str]:
    """The contents of a server's files, among them its log."""
    return [
        path.read_bytes().decode("latin-1")
        for path in folder.rglob("*")
        if path.is_file() and not path.is_relative_to(folder / "data" / "workspaces")
    ]


async def test_a_secret_is_found_nowhere(
    request: pytest.FixtureRequest, provider: FakeProvider, tmp_path: Path, sandbox: str
) -> None:
    """A server in a process writes a log to search; the nodes of a cluster share one with the tests."""
    server: RunningServer | ServerProcess
    if in_cluster():
        server = request.getfixturevalue("start_server")(webhook_networks=["127.0.0.0/8"])
    else:
        more = {"PALIMPSEST_WEBHOOK_NETWORKS": "127.0.0.0/8", "PALIMPSEST_LOG_LEVEL": "debug"}
        server = request.getfixturevalue("start_process")(**more)
    with receiving() as hook:
        async with Client(server.url) as client:
            await client.http.post("/v1/webhooks", json={"url": hook.url})
            ids = [await printed(client, provider, model) for model in (OPENAI, ANTHROPIC)]
            fork = (await client.http.post(f"/v1/sessions/{ids[0]}/fork", json={})).json()
            path = f"/v1/sessions/{ids[0]}"
            # It has its parent's files, but not the secret.
            provider.script(Reply(command('echo "[$TOKEN]"; cat leak.txt')), Reply(Text("done")))
            forked = await client.say(fork["id"], "print", fork["last_seq"])
            assert of_type(forked, "tool.result")[0].data["output"] == "[]\n[secret TOKEN]\n"
            views = [(await client.http.get(f"{path}{view}")).raise_for_status().text for view in VIEWS]
            for event in await client.until_idle(ids[0]):
                if event.type == "tool.result":
                    views.append((await client.http.get(f"{path}/tool-calls/{event.data['call_id']}/output")).text)
            noted = await client.create(secrets={"TOKEN": CANARY})
            await client.http.put(f"/v1/sessions/{noted['id']}/files/AGENTS.md", content=f"The key is {CANARY}.")
            views.append((await client.http.get(f"/v1/sessions/{noted['id']}/context")).text)
            provider.script(Reply(Text("done")))
            last = (await client.say(noted["id"], "go"))[-1]
            assert "The key is [secret TOKEN]." in json.dumps(provider.requests[-1].body)
            ends = {(noted["id"], last.id), *[(id, (await client.session(id))["last_seq"]) for id in ids]}
            await asyncio.to_thread(hook.wait, lambda r: ends <= {(x.body["session_id"], x.seq) for x in r.accepted})
    if isinstance(server, ServerProcess):
        server.end(signal.SIGTERM)
        assert "run_started" in server.log
    views += [request.raw.decode() for request in provider.requests]
    views += [request.raw.decode() for request in hook.requests]
    views.append(stored_rows(tmp_path / "data" / "palimpsest.db").decode())
    views += files_outside_workspaces(tmp_path)
    objects = [await asyncio.to_thread(inflated, path) for path in (tmp_path / "data").rglob("*.git")]
    assert objects or in_cluster()
    views += objects
    for form in FORMS:
        assert not [view for view in views if form in view], form


@pytest.mark.shared_server
async def test_a_file_with_a_secret_is_in_no_checkpoint(
    client: Client, provider: FakeProvider, sandbox: str, tmp_path: Path
) -> None:
    written = 'echo "one $TOKEN" > .env; ln .env linked; echo "plain words" > plain; mkdir sub'
    named = f'echo "$TOKEN" > sub/.gitignore; touch "$(printf %s "$TOKEN" | {HEX})"'
    provider.script(Reply(command(f"{written}; {named}")), Reply(Text("done")))
    session, _ = await client.run("write", secrets={"TOKEN": CANARY})
    path = f"/v1/sessions/{session['id']}"
    changes = await client.get(f"{path}/changes")
    assert [item["path"] for item in changes["items"]] == ["plain"]
    uncovered = {item["path"]: item["reason"] for item in changes["not_covered"]["items"]}
    assert uncovered == dict.fromkeys((".env", "linked", "sub/.gitignore", "[secret TOKEN]"), "secret")
    begun, ended = (await client.get(f"{path}/checkpoints"))["items"]

    # One that is set later is masked in the patch, and in no later checkpoint.
    assert (await client.http.put(f"{path}/secrets/LATER", json={"value": "plain words"})).status_code == 204
    query = {"format": "patch", "from": begun["id"], "to": ended["id"]}
    patch = (await client.http.get(f"{path}/changes", params=query)).content
    await asyncio.to_thread(subprocess.run, ["git", "apply"], input=patch, cwd=tmp_path, check=True)
    assert (tmp_path / "plain").read_text() == "[secret LATER]\n"
    fork = (await client.http.post(f"{path}/fork", json={})).json()["id"]
    first, last = (await client.get(f"/v1/sessions/{fork}/checkpoints"))["items"]
    query = {"format": "patch", "from": first["id"], "to": last["id"]}
    assert (await client.http.get(f"/v1/sessions/{fork}/changes", params=query)).content == patch
    restored = await client.http.post(f"{path}/checkpoints/{begun['id']}/restore")
    assert restored.json()["skipped"]["items"] == []
    assert "plain" in {item["path"] for item in restored.json()["not_covered"]["items"]}
    for name, content in {".env": f"one {CANARY}\n", "plain": "plain words\n"}.items():
        assert (await client.http.get(f"{path}/files/{name}")).text == content


@pytest.mark.shared_server
async def test_secrets_are_set_and_removed_by_name(client: Client, provider: FakeProvider) -> None:
    session = await client.create(secrets={"OLD_TOKEN": "12345678"})
    path = f"/v1/sessions/{session['id']}/secrets"
    assert (await client.http.put(f"{path}/TOKEN", json={"value": CANARY})).status_code == 204
    items = (await client.get(path))["items"]
    assert [(item["name"], set(item)) for item in items] == [
        (name, {"name", "created_at", "updated_at"}) for name in ("OLD_TOKEN", "TOKEN")
    ]
    assert (await client.http.delete(f"{path}/OLD_TOKEN")).status_code == 204
    assert (await client.http.delete(f"{path}/OLD_TOKEN")).json()["code"] == "secret_not_found"

    provider.script(Reply(command('echo "$OLD_TOKEN|$TOKEN"')), Reply(Text("done")))
    events = await client.say(session["id"], "print")
    assert of_type(events, "tool.result")[0].data["output"] == "|[secret TOKEN]\n"

    for name, value in (
        ("TOKEN", "tiny_77"),
        ("PATH", CANARY),
        ("LD_PRELOAD", CANARY),
        ("a b", CANARY),
    ):
        refused = await client.http.put(f"{path}/{name}", json={"value": value})
        assert (refused.status_code, refused.json()["code"]) == (422, "validation_error"), name
        assert value not in refused.text
        created = await client.http.post("/v1/sessions", json={"secrets": {name: value}})
        assert created.status_code == 422
        assert value not in created.text

    id = session["id"].replace(session["id"][:8], "01936f5e")
    first = await client.create(id=id, secrets={"TOKEN": CANARY})
    assert (await client.create(id=id, secrets={"TOKEN": CANARY}))["id"] == first["id"]
