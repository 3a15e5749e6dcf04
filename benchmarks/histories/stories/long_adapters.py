"""A migration of forty payment adapters, one after the other, through several days of work and changes of mind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.histories.story import Story, edit, plan, probe, sh, step, turn, write
from tests.provider import Reply

_BIRDS = (
    *("avocet", "bittern", "bunting", "curlew", "dipper", "dotterel", "dunlin", "eider", "fieldfare", "fulmar"),
    *("gadwall", "gannet", "godwit", "goosander", "grebe", "harrier", "hobby", "jackdaw", "kestrel", "kittiwake"),
    *("knot", "lapwing", "linnet", "merlin", "nuthatch", "osprey", "pintail", "pipit", "plover", "pochard"),
    *("redpoll", "redshank", "ruff", "sanderling", "shrike", "siskin", "smew", "teal", "whimbrel", "wryneck"),
)
_CURRENCIES = ("CHF", "SEK", "JPY", "PLN", "NOK", "CZK", "HUF", "DKK", "RON", "ISK", "TRY")

_GENERATE = """\
#!/bin/sh
# Writes adapters/*.py as version 1 has them, and expected.tsv with the fees of the new contract.
mkdir -p adapters
: > expected.tsv
n=0
while read -r name currency old new; do
    n=$((n + 1))
    printf '%s\\t%s\\t%s\\n' "$name" "$currency" "$new" >> expected.tsv
    awk -v name="$name" -v currency="$currency" -v old="$old" -v n="$n" 'BEGIN {
        print "\\"\\"\\"Adapter for the bank " name ", version 1.\\"\\"\\""
        print ""
        print "CURRENCY = \\"" currency "\\""
        print "FEE = " old
        print ""
        for (i = 0; i < 90; i++) {
            printf "def step_%02d(payment, account=\\"%s-%03d\\"):\\n", i, name, (i * n) % 997
            printf "    return payment.with_(\\"%s\\", retries=%d, window_ms=%d)\\n\\n", name, i % 4, 200 + (i * n) % 800
        }
    }' > "adapters/$name.py"
done < banks.txt
"""
_CHECK = """\
#!/bin/sh
# Replays 140 payments through an adapter: check.sh NAME
name=$1
line=$(grep "^$name" expected.tsv) || { echo "check: unknown adapter $name"; exit 2; }
currency=$(printf '%s' "$line" | cut -f2)
want=$(printf '%s' "$line" | cut -f3)
got=$(sed -n 's/^FEE = //p' "adapters/$name.py")
awk -v name="$name" -v currency="$currency" -v want="$want" -v got="$got" 'BEGIN {
    for (i = 0; i < 140; i++) {
        state = (want != got && i % 35 == 20) ? "FAILED" : "ok"
        printf "payment %03d %s %s amount %d.%02d booked in %d ms %s\\n", i, name, currency, 3 + i * 7 % 911, i % 100, 4 + i % 9, state
    }
}'
if [ "$want" != "$got" ]; then
    echo "AssertionError: $name: fee in $currency: expected $want, got $got"
    echo "4 failed, 136 passed"
    exit 1
fi
echo "140 passed in 0.$(printf '%s' "$name" | wc -c)1s"
"""


@dataclass(frozen=True, slots=True)
class _Bank:
    name: str
    currency: str
    old: str
    new: str

    @property
    def path(self) -> str:
        return f"adapters/{self.name}.py"


def _banks() -> list[_Bank]:
    return [
        _Bank(name, _CURRENCIES[n % len(_CURRENCIES)], f"{1.1 + n * 0.03:.2f}", f"{1.1 + n * 0.03 + 0.07:.3f}")
        for n, name in enumerate(_BIRDS)
    ]


_REMARKS = {
    "curlew": "curlew's sandbox account is acct_7Fq2Lm, which the bank resets every Monday.",
    "eider": "eider rounds half to even, because its contract of 2019 says so: I keep ROUND_HALF_EVEN there.",
    "gannet": "The retries of gannet must stay below 4, since its gateway blocks a client for 90 seconds after that.",
    "harrier": "harrier answers on port 8447 instead of 8443; I leave the port in the environment as HARRIER_PORT.",
    "kestrel": "Decision: kestrel keeps its own date format (%d.%m.%Y), because its parser rejects ISO dates.",
    "lapwing": "The 504 of lapwing comes from its proxy, not from us: request id req-c41d77 shows it.",
    "merlin": "merlin's certificate expires on 2027-03-09; I note it for the handover.",
    "osprey": "I chose Decimal instead of float for osprey, because 0.1 + 0.2 showed up in a booking.",
    "pipit": "pipit has no test account, so its payments are replayed from fixtures/pipit-0412.json only.",
    "redshank": "redshank's webhook secret is read from the vault path kv/pay/redshank, never from the file.",
    "sanderling": "sanderling turns out to send amounts in minor units; I divide by 100 at the border, nowhere else.",
    "teal": "teal's ticket is PAY-3381; the bank promised an answer until Thursday.",
}


def _migration(banks: list[_Bank], done: int, items: tuple[str, ...]) -> Iterator[Reply]:
    for number, bank in enumerate(banks):
        calls = [plan(done, *items)] if number == 0 else []
        yield step(f"{bank.name} is next.", *calls, sh(f"cat {bank.path}"))
        yield step("The replay before the change.", sh(f"sh check.sh {bank.name}"))
        remark = _REMARKS.get(bank.name, "The fee is the old one.")
        yield step(remark, edit(bank.path, f"FEE = {bank.old}", f"FEE = {bank.new}"))
        yield step("And again.", sh(f"sh check.sh {bank.name}"))
        yield step(
            "Version 2 in the head of the file.",
            edit(bank.path, f"bank {bank.name}, version 1.", f"bank {bank.name}, version 2."),
        )


_ITEMS = ("Generate the adapters", "Banks a to g", "Banks g to k", "Banks l to p", "Banks r to w", "Handover")
_BANKS = _banks()
_LIST = "".join(f"{bank.name} {bank.currency} {bank.old} {bank.new}\n" for bank in _BANKS)
_OPS = (
    """\
From operations, for whoever takes this over:

"""
    + "".join(
        f"2026-02-{1 + n % 27:02d} 04:{n % 60:02d} settle[{4000 + n}]: batch {n:04d} of {_BIRDS[n % 40]} closed, "
        f"{n * 13 % 211} payments, {n * 7 % 17} retries\n"
        for n in range(90)
    )
    + """
The batch that must never be replayed is 0412-B, whatever the log says.

"""
    + "".join(
        f"2026-02-{1 + n % 27:02d} 05:{n % 60:02d} settle[{5000 + n}]: batch {n:04d} of {_BIRDS[n % 40]} archived\n"
        for n in range(60)
    )
)

LONG_ADAPTERS = Story(
    "long_adapters",
    "Forty payment adapters are moved to a new contract, with a check before and after each.",
    (
        turn(
            "We move our payment adapters to the contract of 2026. generate.sh writes them from banks.txt; expected.tsv"
            " has the new fees. Go through them one by one: read, check, change the fee, check again, then mark the file"
            " as version 2. Do not change expected.tsv, the auditors signed it. Never print a full account number.",
            step(
                "First the list and the scripts.",
                plan(0, *_ITEMS),
                write("banks.txt", _LIST),
                write("generate.sh", _GENERATE),
                write("check.sh", _CHECK),
                sh("sh generate.sh && ls adapters | wc -l"),
            ),
            *_migration(_BANKS[:10], 1, _ITEMS),
            step("The first ten banks are done: 140 payments pass for each."),
        ),
        turn(
            "Good. Amounts in logs have to be masked from now on, except in the checks. Go on with the next ten, and write"
            " notes for the handover into HANDOVER.md at the end, not before.",
            *_migration(_BANKS[10:20], 2, _ITEMS),
            step("Twenty are done."),
        ),
        turn(
            "The reviewers want the handover in docs/handover.adoc instead of HANDOVER.md. And skip nothing: smew is rarely"
            " used but has to be moved as well. Next ten, please.\n\n" + _OPS,
            step(
                "Is the archive of February still there?",
                sh("ls archive/2026-02"),
            ),
            *_migration(_BANKS[20:30], 3, _ITEMS),
            step(
                "A quick look at all of them together.",
                sh("for f in adapters/*.py; do head -1 $f; done | grep -c 'version 2'; sh check.sh heron"),
            ),
            step("Thirty are done. check.sh knows no adapter heron, so the list of banks is complete without it."),
        ),
        turn(
            "Sorry, back to Markdown: docs/handover.md, the tool for adoc was retired. Release on the 14th instead of the"
            " 12th. Go on.",
            *_migration(_BANKS[30:40], 4, _ITEMS),
            step(
                "All forty are moved. Now the whole suite.",
                plan(5, *_ITEMS),
                sh("for b in $(cut -d' ' -f1 banks.txt); do sh check.sh $b | tail -1; done | sort | uniq -c"),
            ),
            cut=True,
        ),
    ),
    (
        probe("task", "Which file must not be changed, and who signed it?", "expected.tsv", "auditors"),
        probe("task", "What must never be printed in full?", "account number"),
        probe("task", "What has to be masked in logs, and where not?", ("amounts", "amount"), ("checks", "check")),
        probe("decisions", "Where does the handover go in the end?", "docs/handover.md", outdated="docs/handover.adoc"),
        probe("decisions", "When is the release?", ("14th", "14"), outdated="12th"),
        probe("task", "Which batch must never be replayed?", "0412-B"),
        probe(
            "decisions",
            "How does eider round, and which year's contract says so?",
            ("ROUND_HALF_EVEN", "half to even"),
            "2019",
        ),
        probe("decisions", "Why does gannet need few retries?", ("90 seconds", "90 s")),
        probe("decisions", "Which port does harrier answer on, and in which variable is it?", "8447", "HARRIER_PORT"),
        probe("decisions", "Which date format does kestrel keep?", "%d.%m.%Y"),
        probe("decisions", "Why Decimal for osprey?", ("0.1 + 0.2", "float")),
        probe("decisions", "In which units does sanderling send amounts?", "minor units"),
        probe("errors", "What is curlew's sandbox account?", "acct_7Fq2Lm"),
        probe("errors", "Which request shows that lapwing's 504 is its proxy's?", "req-c41d77"),
        probe("errors", "When does merlin's certificate expire?", "2027-03-09"),
        probe("files", "From which file are pipit's payments replayed?", "fixtures/pipit-0412.json"),
        probe("files", "Where is redshank's webhook secret?", "kv/pay/redshank"),
        probe("errors", "What is teal's ticket?", "PAY-3381"),
        probe("errors", "What exactly did the check of dunlin say first?", "expected 1.350, got 1.28"),
        probe("errors", "Which error did the check of wryneck end with at first?", "expected 2.340, got 2.27"),
        probe("errors", "What did listing the archive of February say?", "No such file or directory"),
        probe("files", "What is the fee of knot now?", "1.770"),
        probe("files", "What is the fee of smew now?", "2.250"),
        probe("files", "Which version is whimbrel's file?", "version 2"),
        probe("errors", "What did the last check of shrike say?", ("140 passed in 0.61s", "140 passed")),
        probe("next_step", "What is left to do?", ("handover", "Handover")),
    ),
)
