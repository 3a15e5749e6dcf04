"""Thirty-six nightly jobs are moved to a new scheduler. Set aside: nothing may be tuned by its results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.histories.story import Story, edit, plan, probe, read, sh, step, turn, write
from tests.provider import Reply

_NAMES = (
    *("ledger_sync", "fx_rates", "mail_digest", "stock_count", "report_daily", "tax_export", "user_purge"),
    *("image_resize", "search_rebuild", "price_feed", "refund_sweep", "audit_trail", "geo_lookup", "sms_queue"),
    *("coupon_expiry", "cart_cleanup", "invoice_pdf", "backup_verify", "label_print", "route_plan", "fraud_score"),
    *("churn_model", "feed_google", "feed_idealo", "returns_match", "payroll_post", "badge_import", "meter_read"),
    *("voucher_mail", "seo_sitemap", "cache_warm", "tariff_load", "quota_reset", "survey_send", "dunning_run"),
    "archive_cold",
)


class _Job(NamedTuple):
    """`old` and `new` are starts in minutes after midnight; the new scheduler has limits in seconds."""

    name: str
    old: int
    new: int
    limit: int

    @property
    def path(self) -> str:
        return f"jobs/{self.name}.conf"


_JOBS = [_Job(name, 60 + n * 4, 65 + n * 6, 300 + n * 35 % 900) for n, name in enumerate(_NAMES)]

_MAKE = """\
#!/bin/sh
# Writes jobs/*.conf as the old scheduler has them.
mkdir -p jobs
n=0
while read -r name old new limit; do
    n=$((n + 1))
    awk -v name="$name" -v old="$old" -v n="$n" 'BEGIN {
        print "[job]"; print "name = " name; print "start = " old; print "limit = none"; print ""
        print "[steps]"
        for (i = 1; i <= 45; i++)
            printf "step_%02d = select shard %d of %s, batch %d, pause %d ms\\n", i, (i * n) % 16, name, 100 + (i * n) % 400, (i * 7 + n) % 90
        print ""; print "[owner]"; print "team = " (n % 3 ? "commerce" : "platform"); print "pager = rota-" (n % 5)
    }' > "jobs/$name.conf"
done < moves.txt
"""

_RUN = """\
#!/bin/sh
# Runs a job: run.sh NAME [dry]. What odd.txt has for it is printed in its middle: NAME|MODE|STATUS|LINE
name=$1; mode=${2:-full}
[ -f "jobs/$name.conf" ] || { echo "run: no job $name" >&2; exit 66; }
start=$(sed -n 's/^start = //p' "jobs/$name.conf"); limit=$(sed -n 's/^limit = //p' "jobs/$name.conf")
odd=$(grep "^$name|$mode|" odd.txt | head -1)
key="$mode"; [ "$mode" = full ] && [ "$limit" = none ] && odd="x|x|75|run: $name has no limit; the new scheduler refuses it"
status=$(printf '%s' "$odd" | cut -d'|' -f3); line=$(printf '%s' "$odd" | cut -d'|' -f4-)
awk -v name="$name" -v line="$line" -v start="$start" 'BEGIN {
    for (i = 0; i < 110; i++) {
        printf "%02d:%02d:%02d %s shard %d read %d rows, wrote %d, lag %d ms\\n", start / 60, start % 60, i % 60, name, i % 16, i * 37 % 5000, i * 31 % 4000, i * 13 % 700
        if (i == 58 && line != "") print line
    }
}'
[ "${status:-0}" = 0 ] && echo "done: 110 batches of $name, 0 rejected" || { echo "stopped: $name after 110 batches" >&2; exit "$status"; }
"""

_ODD = """\
ledger_sync|dry|0|lock on table fx_spot held until 03:40 by session 88213
fx_rates|full|4|ERROR 42P07: relation "fx_rates_2019" already exists
mail_digest|dry|0|connected to mx3.internal:2525 as digest-bot
tax_export|full|9|SchemaMismatch: column vat_code is varchar(4), file has 6 characters
user_purge|dry|0|would delete 18,442 users, oldest deletion request DR-20871
search_rebuild|full|137|killed: out of memory at 6,144 MiB while merging segment _9k2
price_feed|dry|0|feed version 7.3.1-rc2, signed by key 0xA41C77E2
geo_lookup|full|7|TimeoutError: tiles.geo.example did not answer within 4500 ms (attempt 3 of 3)
sms_queue|dry|0|provider account SMS-EU-4471, balance 212.80
invoice_pdf|full|3|FontMissing: NotoSansMono-Bold.ttf is not embedded in template inv-v12
backup_verify|dry|0|snapshot snap-0c9d41be verified, 3 blocks repaired
fraud_score|full|5|ValueError: feature 'ip_age' has 0.37 nulls, at most 0.25 allowed
churn_model|dry|0|model registry: churn/114, AUC 0.8127
feed_idealo|full|22|HTTP 422 from partner: offer 77-1903 lacks deliveryCosts
payroll_post|dry|0|posting period 2026-10 is closed; next open period 2026-12
meter_read|full|6|CRCError: frame 3121 of gateway GW-19 has checksum 0x5b, expected 0xd0
cache_warm|dry|0|warmed 9,317 keys, hit ratio 0.914
quota_reset|full|8|PermissionDenied: role quota_rw lacks UPDATE on tenant_limits
dunning_run|dry|0|letter batch LB-5520 has 64 letters, 3 addresses invalid
"""

_REMARKS = {
    "ledger_sync": "The lock it holds ends at 03:40, which I remember for everything that reads fx_spot.",
    "report_daily": "report_daily reads fx_spot as well, so I let it start after ledger_sync's lock and not before.",
    "image_resize": "I keep four workers for image_resize: with eight, the storage answered 503 SlowDown last week.",
    "refund_sweep": "refund_sweep compares amounts in cents, because the bank's file has no decimal separator.",
    "audit_trail": "Decision: audit_trail writes to bucket audit-eu-2, since the old bucket has no object lock.",
    "coupon_expiry": "Coupons end at midnight of Europe/Lisbon, not of UTC; the shop's lawyers wanted that.",
    "cart_cleanup": "cart_cleanup turns out to delete carts younger than 30 days if the clock is changed; I pin TZ=UTC there.",
    "label_print": "The printers of label_print only take ZPL 2 and drop anything above 64 KiB.",
    "route_plan": "route_plan needs its own queue named slow-lane, because it blocks the others for 25 minutes.",
    "feed_google": "I chose gzip instead of zstd for feed_google: its importer rejects zstd with code 1007.",
    "returns_match": "returns_match uses a tolerance of 0.02 when it pairs amounts; accounting agreed to that in ticket ACC-918.",
    "badge_import": "badge_import is run by user svc-badge and needs umask 027, otherwise the doors cannot read the file.",
    "voucher_mail": "The root cause of the double mails of voucher_mail is a retry without an idempotency key.",
    "seo_sitemap": "seo_sitemap splits at 45,000 addresses per file.",
    "tariff_load": "tariff_load has to wait for the file TARIFF.OK, which arrives at 04:55 at the latest.",
    "survey_send": "survey_send is limited to 120 mails a minute by the provider's contract.",
}
_SEEN = {
    "fx_rates": "The table of 2019 is left over from a restore; I drop nothing and skip that partition.",
    "search_rebuild": "It needs more memory than this machine has, so merging is done in four parts from now on.",
    "quota_reset": "The role lacks a right. I do not grant it myself; that goes into the list for the database team.",
}


def _moves(jobs: list[_Job], done: int) -> Iterator[Reply]:
    for number, job in enumerate(jobs):
        calls = [plan(done, *_ITEMS)] if number == 0 else []
        yield step(f"Next: {job.name}.", *calls, read(job.path))
        yield step("A dry run with the old settings.", sh(f"sh run.sh {job.name} dry"))
        remark = _REMARKS.get(job.name, "Nothing special here.")
        yield step(remark, edit(job.path, f"start = {job.old}\n", f"start = {job.new}\n"))
        yield step("Without a limit it must be refused.", sh(f"sh run.sh {job.name}"))
        yield step("The limit.", edit(job.path, "limit = none", f"limit = {job.limit}"))
        yield step("The full run.", sh(f"sh run.sh {job.name}"))
        if job.name in _SEEN:
            yield step(_SEEN[job.name], sh(f"grep -n '^limit' {job.path}"))


_ITEMS = ("Write the old files", "Jobs 1 to 9", "Jobs 10 to 18", "Jobs 19 to 27", "Jobs 28 to 36", "Cut-over sheet")
_LIST = "".join(f"{job.name} {job.old} {job.new} {job.limit}\n" for job in _JOBS)
_RULES = (
    "The rules of the new scheduler, copied from its wiki:\n\n"
    + "".join(
        f"{n}. Queue q{n:02d} takes jobs of class {n % 7}, at most {n * 3 % 40} at a time, and drains in {n * 11 % 90} s.\n"
        for n in range(1, 46)
    )
    + "46. Jobs that touch payroll must never run on the 28th.\n"
    + "".join(
        f"{n}. Queue q{n:02d} keeps its logs for {n * 5 % 60} days on node n{n * 7 % 23}.\n" for n in range(47, 90)
    )
)

LONG_JOBS = Story(
    "long_jobs",
    "Thirty-six nightly jobs are moved to a new scheduler, some of which fail in ways of their own.",
    (
        turn(
            "Our 36 nightly jobs move from cron to the new scheduler. make.sh writes their files from moves.txt, run.sh"
            " runs one. For each: read it, dry run, set the new start, see that it is refused without a limit, set the"
            " limit, run it in full. Do not edit odd.txt. Never run two jobs at once, the replica cannot take it. If a"
            " full run fails, note it and go on; do not repair data.",
            step(
                "First the scripts and the list.",
                plan(0, *_ITEMS),
                write("moves.txt", _LIST),
                write("odd.txt", _ODD),
                write("make.sh", _MAKE),
                write("run.sh", _RUN),
                sh("sh make.sh; ls jobs | wc -l"),
            ),
            *_moves(_JOBS[:9], 1),
            step("Nine jobs are moved; three of them fail in full and are noted."),
        ),
        turn(
            "Fine. From now on use British spelling in comments, and keep all times in minutes, not hh:mm. The cut-over is"
            " on Tuesday the 8th. Next nine.\n\n" + _RULES,
            *_moves(_JOBS[9:18], 2),
            step("Eighteen are moved."),
        ),
        turn(
            "The cut-over moves to Thursday the 17th, the Tuesday is a holiday. Tell nobody outside of platform about"
            " user_purge. And the sheet goes to ops/cutover.csv when all is done. Next nine.",
            step("Is there already a sheet?", sh("cat ops/cutover.csv")),
            *_moves(_JOBS[18:27], 3),
            step("Twenty-seven are moved."),
        ),
        turn(
            "Please make the sheet ops/cutover.md instead, a table; nobody opens CSV here. Contact for questions is Ines"
            " Faria, not Tom any more. The rest, please.",
            *_moves(_JOBS[27:], 4),
            step(
                "All are moved. Is a limit missing anywhere?",
                plan(5, *_ITEMS),
                sh("grep -c 'limit = none' jobs/*.conf | grep -v ':0' || echo 'no job without a limit'"),
            ),
            cut=True,
        ),
    ),
    (
        probe("task", "Which file must not be edited?", "odd.txt"),
        probe("task", "Why must two jobs never run at once?", "replica"),
        probe("task", "What is to be done if a full run fails?", ("note it", "go on", "noted")),
        probe("task", "Which spelling do comments have from now on?", "British"),
        probe("task", "How are times written?", ("minutes", "in minutes")),
        probe("task", "On which day must payroll jobs never run?", ("28th", "28")),
        probe("task", "Outside of which team must user_purge not be mentioned?", "platform"),
        probe("task", "Who is the contact for questions?", "Ines Faria"),
        probe("decisions", "When is the cut-over now?", ("17th", "Thursday"), outdated="8th"),
        probe(
            "decisions", "Where does the cut-over sheet go in the end?", "ops/cutover.md", outdated="ops/cutover.csv"
        ),
        probe(
            "decisions",
            "How many workers does image_resize keep, and what did storage answer with more?",
            "four",
            "503",
        ),
        probe("decisions", "Why does refund_sweep compare amounts in cents?", ("decimal separator", "no decimal")),
        probe("decisions", "Which bucket does audit_trail write to?", "audit-eu-2"),
        probe("decisions", "In which time zone do coupons end?", "Europe/Lisbon"),
        probe("decisions", "Which queue does route_plan get?", "slow-lane"),
        probe("decisions", "Why gzip for feed_google?", "1007"),
        probe(
            "decisions", "Which tolerance does returns_match use, and in which ticket was it agreed?", "0.02", "ACC-918"
        ),
        probe("decisions", "What is the root cause of the double mails of voucher_mail?", "idempotency key"),
        probe("decisions", "How many mails a minute may survey_send send?", "120"),
        probe("errors", "What did the full run of fx_rates fail with?", "42P07", "fx_rates_2019"),
        probe("errors", "Which column did tax_export stumble over?", "vat_code"),
        probe("errors", "At which size was search_rebuild killed, merging which segment?", ("6,144", "6144"), "_9k2"),
        probe("errors", "After how many milliseconds did geo_lookup give up?", "4500"),
        probe("errors", "Which font is missing for invoice_pdf?", "NotoSansMono-Bold.ttf"),
        probe("errors", "What did the partner of feed_idealo miss in which offer?", "deliveryCosts", "77-1903"),
        probe("errors", "Which gateway sent meter_read a frame with a wrong checksum?", "GW-19"),
        probe("errors", "Which right does the role of quota_reset lack?", ("tenant_limits", "UPDATE on tenant_limits")),
        probe("errors", "Which session holds the lock on fx_spot?", "88213"),
        probe("files", "Which host and port does mail_digest connect to?", ("mx3.internal:2525", "mx3.internal")),
        probe("files", "Which key signed the version of price_feed?", "0xA41C77E2"),
        probe("files", "Which account does sms_queue use?", "SMS-EU-4471"),
        probe("files", "Which snapshot did backup_verify check?", "snap-0c9d41be"),
        probe("files", "Which model does churn_model take from the registry, with which AUC?", "churn/114", "0.8127"),
        probe("files", "Which letter batch does dunning_run have?", "LB-5520"),
        probe("files", "At which minute does geo_lookup start now?", "137"),
        probe("files", "Which limit does label_print have now?", str(_JOBS[18].limit)),
        probe("files", "Which limit does archive_cold have now?", str(_JOBS[35].limit)),
        probe("files", "Which file must tariff_load wait for?", "TARIFF.OK"),
        probe("next_step", "What is left to do after the jobs?", ("Cut-over sheet", "cutover.md", "the sheet")),
    ),
)
