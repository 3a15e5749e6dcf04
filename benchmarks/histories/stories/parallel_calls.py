"""Several calls in each step: files read, written and checked in parallel."""

from __future__ import annotations

from benchmarks.histories.story import Story, plan, probe, read, search, sh, step, turn, write
from tests.provider import ToolCall

_SERVICES = {"orders": "8101", "stock": "8102", "invoices": "8103", "mailer": "8104", "reports": "8105"}


def _config(name: str, port: str, *, timeout: str = "30", log: str = "info") -> str:
    return f"""\
# Settings of the service {name}
name = {name}
listen = 127.0.0.1:{port}
timeout_s = {timeout}
log_level = {log}
workers = 4
depends_on = {"-" if name == "stock" else "stock"}
health = /healthz
owner = team-{name}
"""


_RUN = """\
#!/bin/sh
# Checks that no two services listen on one port and that all they depend on is there.
status=0
twice=$(grep -h ^listen conf/*.conf | sort | uniq -d)
[ -z "$twice" ] || { echo "port used twice: $twice"; status=1; }
for needed in $(grep -h ^depends_on conf/*.conf | cut -d= -f2 | tr -d ' -' | sort -u); do
    [ -f "conf/$needed.conf" ] || { echo "missing service: $needed"; status=1; }
done
exit $status
"""

_ITEMS = ("Write the settings", "Check them", "Move the ports", "Rename stock", "Describe it in NETWORK.md")


def _write_all(**changes: str) -> list[ToolCall]:
    return [write(f"conf/{name}.conf", _config(name, port, **changes)) for name, port in _SERVICES.items()]


def _sh_each(template: str, names: tuple[str, ...]) -> list[ToolCall]:
    return [sh(template.format(name=name)) for name in names]


_NAMES = tuple(_SERVICES)
_RENAMED = tuple("warehouse" if name == "stock" else name for name in _NAMES)

PARALLEL_CALLS = Story(
    "parallel_calls",
    "Five services are configured and changed together, up to six calls in a step.",
    (
        turn(
            "Set up conf/*.conf for our five services: orders, stock, invoices, mailer, reports. Ports from 8101 on,"
            " loopback only. All but stock depend on stock. Then write check.sh, which finds ports used twice and"
            " missing services. This is for the Lisbon office.",
            step("A plan and all five at once.", plan(0, *_ITEMS), *_write_all()),
            step("I read them back together.", *(read(f"conf/{name}.conf") for name in _NAMES)),
            step("The check, and what is in the folder.", write("check.sh", _RUN), sh("ls -l conf"), plan(1, *_ITEMS)),
            step(
                "Run it, and look for anything that is not loopback.",
                sh("sh check.sh; echo status $?"),
                search("0.0.0.0", "conf"),
            ),
            step("Five services, no port used twice, nothing missing."),
        ),
        turn(
            "Port 8103 is taken by the printer server. Move all services by 100, so orders gets 8201 and so on. And raise"
            " the timeout of reports to 120 seconds, its queries are slow; leave the other timeouts alone.",
            step(
                "All ports at once.",
                plan(2, *_ITEMS),
                *_sh_each(
                    "awk '{{ sub(/:81/, \":82\"); print }}' conf/{name}.conf > conf/{name}.tmp && mv conf/{name}.tmp conf/{name}.conf && grep listen conf/{name}.conf",
                    _NAMES,
                ),
            ),
            step(
                "The timeout of reports, and the check beside it.",
                sh(
                    "awk '{ sub(/timeout_s = 30/, \"timeout_s = 120\"); print }' conf/reports.conf > t && mv t conf/reports.conf; cat conf/reports.conf"
                ),
                sh("sh check.sh; echo status $?"),
            ),
            step("The services listen on 8201 to 8205, and reports has 120 seconds."),
        ),
        turn(
            "Rename stock to warehouse everywhere. The owner stays team-stock, the people have not changed. Afterwards"
            " write NETWORK.md with a table of names and ports.",
            step(
                "Who names it? And the rename of the file.",
                plan(3, *_ITEMS),
                search("stock", "conf"),
                search("stock", "check.sh"),
                sh("mv conf/stock.conf conf/warehouse.conf && ls conf"),
            ),
            step("Between the two changes the check must complain.", sh("sh check.sh")),
            step(
                "It says `missing service: stock`, as it should. Now the contents, all together.",
                *_sh_each(
                    "awk '/^owner/ {{ print; next }} {{ gsub(/stock/, \"warehouse\"); print }}' conf/{name}.conf > conf/{name}.tmp && mv conf/{name}.tmp conf/{name}.conf && cat conf/{name}.conf",
                    _RENAMED,
                ),
            ),
            step(
                "Checks, side by side.",
                sh("sh check.sh; echo status $?"),
                sh("grep -rn stock conf"),
                sh("grep -c warehouse conf/*.conf"),
            ),
            step(
                "Only `owner = team-stock` is left of the old name, as it was asked for. For NETWORK.md I collect names"
                " and ports.",
                plan(4, *_ITEMS),
                *_sh_each("sed -n '2,3p' conf/{name}.conf", _RENAMED),
            ),
            cut=True,
        ),
    ),
    (
        probe("task", "For which office is the set-up, and how many services are there?", "Lisbon", ("five", "5")),
        probe("task", "On which addresses may the services listen?", ("loopback", "127.0.0.1")),
        probe("files", "Which script finds ports that are used twice?", "check.sh"),
        probe(
            "files",
            "What is the settings file of the renamed service called now?",
            ("conf/warehouse.conf", "warehouse.conf"),
        ),
        probe("decisions", "On which port does orders listen now?", "8201"),
        probe("decisions", "Which service got a longer timeout, and how long is it in seconds?", "reports", "120"),
        probe("decisions", "Which owner stays although its service was renamed?", "team-stock"),
        probe("errors", "Why did the ports have to move?", ("printer server", "printer")),
        probe("errors", "What did the check complain about between the two changes of the rename?", "missing service"),
        probe("next_step", "Which file comes next, and what stands in it?", "NETWORK.md", ("ports", "names and ports")),
    ),
)
