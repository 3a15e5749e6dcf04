"""A long log that is read page by page until the cause of an outage is found."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.histories.story import Story, plan, probe, sh, step, turn, write
from tests.provider import Reply

_MAKE_LOG = """\
#!/bin/sh
# Writes gate.log as the night shift left it.
awk 'BEGIN {
    for (n = 0; n < 2400; n++) {
        at = sprintf("02:%02d:%02d", int(n / 40), n % 40)
        level = "INFO"; text = "badge reader " (n % 7) " polled in " (20 + n % 13) " ms"
        if (n % 97 == 0) { level = "WARN"; text = "reader " (n % 7) " answered late, attempt 2" }
        if (n == 611) { level = "WARN"; text = "certificate of ldap.internal expires in 1 hour" }
        if (n == 1391) { level = "ERROR"; text = "TLS handshake with ldap.internal failed: certificate has expired" }
        if (n > 1391 && n % 31 == 0) { level = "ERROR"; text = "authorisation cache empty, gate stays shut (E-2207)" }
        if (n == 1702) { level = "INFO"; text = "operator override by J. Okafor, gate 4 opened by hand" }
        printf "%s %s %s\\n", at, level, text
    }
}' > gate.log
"""

_REMARKS = (
    "Polls only, and a late reader now and then.",
    "The same. Readers answer within 32 ms.",
    "A warning: the certificate of ldap.internal expires in an hour. I keep that in mind.",
    "Nothing new.",
    "Still only polls.",
    "Here it begins: the TLS handshake with ldap.internal fails since its certificate has expired, at 02:34:31.",
    "The authorisation cache runs empty, and the gate stays shut with E-2207.",
    "An operator, J. Okafor, opened gate 4 by hand at 02:42:22.",
    "E-2207 goes on.",
    "And on.",
    "Until the end of the log.",
)


def _pages() -> Iterator[Reply]:
    for number, remark in enumerate(("I read it page by page.", *_REMARKS[:-1])):
        first = number * 200 + 1
        yield step(remark, sh(f"sed -n '{first},{first + 199}p' gate.log"))
    yield step(_REMARKS[-1], sh("sed -n '2201,2400p' gate.log"))


_ITEMS = ("Read the log", "Find the cause", "Write the runbook", "Alarm before it happens again")

_RUNBOOK = """\
# Gates stay shut with E-2207

1. Look at the certificate of ldap.internal: `openssl s_client -connect ldap.internal:636`.
2. Renew it with the house's own authority, then restart `gated`.
3. Until then gates can be opened by hand; write down who did it.
"""

LONG_LOG = Story(
    "long_log",
    "The log of a night in which a gate stayed shut, read from its beginning to its end.",
    (
        turn(
            "Last night the gates at the Rotterdam terminal stayed shut. makelog.sh gives you gate.log. Find the cause"
            " and when it began, and write runbook.md for the night shift. Read the whole log, do not only search for"
            " errors: the last report missed the cause.",
            step(
                "The log first.", plan(0, *_ITEMS), write("makelog.sh", _MAKE_LOG), sh("sh makelog.sh; wc -l gate.log")
            ),
            *_pages(),
            step(
                "The cause is an expired certificate, not the readers. How often did each happen?",
                plan(1, *_ITEMS),
                sh("cut -d' ' -f2 gate.log | sort | uniq -c; grep -c E-2207 gate.log"),
            ),
            step(
                "Could the gate have reached the directory without TLS? I try what the old manual says.",
                sh("gatectl ldap --plain --dry-run"),
            ),
            step(
                "gatectl is not installed here (status 127), so that stays untested. I leave plain LDAP out of the"
                " runbook: passwords would go over the wire in the open.",
                plan(2, *_ITEMS),
                write("runbook.md", _RUNBOOK),
            ),
            step(
                "The gates stayed shut because the certificate of ldap.internal expired at 02:34:31; runbook.md says"
                " what to do."
            ),
        ),
        turn(
            "Thanks. The service is called gatekeeperd, not gated, please correct that. Then write alarm.sh, which warns"
            " 14 days before a certificate expires. Not by mail, the night shift only sees the pager.",
            step(
                "The name in the runbook.",
                sh(
                    "awk '{ gsub(/`gated`/, \"`gatekeeperd`\"); print }' runbook.md > tmp && mv tmp runbook.md; cat runbook.md"
                ),
            ),
            step(
                "alarm.sh will compare the certificate's end with the date in 14 days and call the pager. Which tools"
                " are here?",
                plan(3, *_ITEMS),
                sh('for tool in openssl date curl pager; do command -v $tool || echo "$tool: not here"; done'),
            ),
            cut=True,
        ),
    ),
    (
        probe("task", "At which terminal did the gates stay shut?", "Rotterdam"),
        probe("task", "Why should the whole log be read instead of searching it?", ("missed the cause", "missed")),
        probe("files", "Which file was written for the night shift?", "runbook.md"),
        probe(
            "errors",
            "What was the cause of the outage, and on which host?",
            ("certificate", "expired certificate"),
            "ldap.internal",
        ),
        probe("errors", "When did the first handshake fail?", "02:34:31"),
        probe("errors", "Which error code did the gate log while it stayed shut?", "E-2207"),
        probe("errors", "Who opened a gate by hand, and which one?", "Okafor", "gate 4"),
        probe("decisions", "Why was plain LDAP left out?", ("passwords", "password")),
        probe("decisions", "What is the right name of the service?", "gatekeeperd"),
        probe(
            "next_step",
            "Which script is to be written next, how early shall it warn and by what?",
            "alarm.sh",
            "14",
            "pager",
        ),
    ),
)
