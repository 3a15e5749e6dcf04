"""A user who changes decisions during the work, so that earlier ones no longer hold."""

from __future__ import annotations

from benchmarks.histories.story import Story, edit, plan, probe, read, search, sh, step, turn, write

_REPORT = """\
#!/bin/sh
# Prints the sums of a ledger by category.
# Usage: report.sh LEDGER
set -eu
ledger=${1:?name a ledger}
awk -F, 'NR > 1 { sum[$2] += $3 } END { for (name in sum) printf "%s,%.2f\\n", name, sum[name] }' "$ledger" | sort
"""

_LEDGER = """\
date,category,amount
2026-01-03,rent,900.00
2026-01-05,food,41.20
2026-01-09,food,18.75
2026-01-12,travel,120.00
2026-01-20,rent,900.00
2026-02-02,food,63.10
2026-02-14,gifts,35.00
"""

_TEST = """\
#!/bin/sh
# Exit status is the number of failures.
failures=0
expect() {
    if [ "$2" = "$3" ]; then echo "ok    $1"; else echo "FAIL  $1: expected [$2], got [$3]"; failures=$((failures + 1)); fi
}
expect "food" "food,123.05" "$(sh report.sh sample.csv | grep ^food)"
expect "rent" "rent,1800.00" "$(sh report.sh sample.csv | grep ^rent)"
expect "missing file" "2" "$(sh report.sh nowhere.csv >/dev/null 2>&1; echo $?)"
echo "$failures failed"
exit "$failures"
"""

_JSON = """awk -F, 'NR > 1 { sum[$2] += $3 } END { for (name in sum) printf "{\\"category\\":\\"%s\\",\\"sum\\":%.2f}\\n", name, sum[name] }' "$ledger" | sort"""
_CSV = """awk -F, 'NR > 1 { sum[$2] += $3 } END { for (name in sum) printf "%s,%.2f\\n", name, sum[name] }' "$ledger" | sort"""
_MARKDOWN = """awk -F, 'NR > 1 { sum[$2] += $3 } END { for (name in sum) printf "| %s | %.2f |\\n", name, sum[name] }' "$ledger" | sort"""

_PLAN = ("Write report.sh", "Test it", "Change the format", "Write the manual page", "Install script")

_MANUAL = """\
# moneta

Prints the sums of a ledger by category, as a Markdown table.

    sh moneta.sh sample.csv

Amounts have two decimals and no currency sign. Refunds count as negative amounts. Exit status 2 means that the ledger
is missing.
"""

CHANGES_OF_MIND = Story(
    "changes_of_mind",
    "A small report script whose name, output format and rounding the user changes several times.",
    (
        turn(
            "Write a shell script report.sh that reads a CSV ledger (date,category,amount) and prints the sum of each"
            " category as CSV. Only POSIX sh and awk, no Python. Test it with a sample ledger.",
            step(
                "A plan, and a look at what is here.",
                plan(0, *_PLAN),
                sh("ls -la; awk 'BEGIN { print \"awk works\" }'"),
            ),
            step(
                "The workspace is empty. A sample ledger and the script.",
                write("sample.csv", _LEDGER),
                write("report.sh", _REPORT),
            ),
            step("A first run.", sh("sh report.sh sample.csv")),
            step("Sums are right. Now a test.", write("test_report.sh", _TEST), plan(1, *_PLAN)),
            step("Running the test.", sh("sh test_report.sh")),
            step(
                "awk ends with status 2 for a missing file but sort hides it: the pipeline's status is that of its last"
                " command. I check the file first.",
                edit(
                    "report.sh",
                    "ledger=${1:?name a ledger}\n",
                    'ledger=${1:?name a ledger}\n[ -r "$ledger" ] || { echo "cannot read $ledger" >&2; exit 2; }\n',
                ),
            ),
            step("Once more.", sh("sh test_report.sh")),
            step("report.sh prints CSV and its test passes, with exit status 2 for a ledger that cannot be read."),
        ),
        turn(
            "I changed my mind: print one JSON object per line instead of CSV, our importer wants that.",
            step("JSON lines it is.", plan(2, *_PLAN), edit("report.sh", _CSV, _JSON)),
            step("A look at the output.", sh("sh report.sh sample.csv")),
            step(
                "The tests expect CSV, so they follow.",
                edit(
                    "test_report.sh",
                    '"food,123.05" "$(sh report.sh sample.csv | grep ^food)"',
                    '\'{"category":"food","sum":123.05}\' "$(sh report.sh sample.csv | grep food)"',
                ),
                edit(
                    "test_report.sh",
                    '"rent,1800.00" "$(sh report.sh sample.csv | grep ^rent)"',
                    '\'{"category":"rent","sum":1800.00}\' "$(sh report.sh sample.csv | grep rent)"',
                ),
            ),
            step("And run.", sh("sh test_report.sh")),
            step("The report is one JSON object per line now; the tests pass."),
        ),
        turn(
            "Sorry, the importer is gone. Make it a Markdown table with a header row, and call the program moneta, not"
            " report. Refunds (negative amounts) have to be subtracted, do not drop them. And never round the"
            " amounts to whole numbers, the auditors complained.",
            step(
                "First the name.",
                sh("mv report.sh moneta.sh && mv test_report.sh test_moneta.sh && ls"),
                search("report.sh"),
            ),
            step(
                "The test and the script still name the old file.",
                sh(
                    "for f in moneta.sh test_moneta.sh; do awk '{ gsub(/report\\.sh/, \"moneta.sh\"); print }' $f > tmp && mv tmp $f; done; grep -n moneta *.sh"
                ),
            ),
            step(
                "Now the table.",
                edit("moneta.sh", _JSON, "printf '| category | sum |\\n| --- | ---: |\\n'\n" + _MARKDOWN),
            ),
            step(
                "A ledger with a refund.", sh("echo '2026-02-20,travel,-45.50' >> sample.csv; sh moneta.sh sample.csv")
            ),
            step(
                "travel is 74.50: the refund of 45.50 was subtracted. The tests follow the format.",
                sh(
                    'awk \'{ if (/"food"|expect "food"/) print "expect \\"food\\" \\"| food | 123.05 |\\" \\"$(sh moneta.sh sample.csv | grep food)\\"";'
                    ' else if (/expect "rent"/) print "expect \\"rent\\" \\"| rent | 1800.00 |\\" \\"$(sh moneta.sh sample.csv | grep rent)\\""; else print }\''
                    " test_moneta.sh > tmp && mv tmp test_moneta.sh; cat test_moneta.sh; sh test_moneta.sh"
                ),
            ),
            step("moneta.sh prints a Markdown table, subtracts refunds and keeps two decimals; three tests pass."),
        ),
        turn(
            "Good. Put a short manual into README.md. Not in docs/, the README is enough. After that write install.sh"
            " that copies the program to ~/.local/bin without needing root.",
            step("The manual first.", plan(3, *_PLAN), write("README.md", _MANUAL)),
            step(
                "I read the program again for what install.sh has to copy.",
                read("moneta.sh"),
                sh("wc -l *.sh README.md"),
            ),
            step(
                "install.sh will copy moneta.sh alone, under the name moneta. Is the folder there?",
                plan(4, *_PLAN),
                sh("ls -ld ~/.local/bin; id -u"),
            ),
            cut=True,
        ),
    ),
    (
        probe(
            "task",
            "What does the program that the user wants read, and what does it print for each category?",
            "ledger",
            "sum",
        ),
        probe(
            "task",
            "Which languages or tools was the program allowed to be written in, and which was forbidden?",
            "awk",
            "Python",
        ),
        probe("files", "What is the program's file called now?", "moneta.sh"),
        probe("files", "Which file holds the tests, and which the manual?", "test_moneta.sh", "README.md"),
        probe(
            "decisions", "In which output format does the program print its result now, after all changes?", "Markdown"
        ),
        probe(
            "decisions",
            "How are refunds treated, and what must not be done to amounts?",
            ("subtracted", "subtract", "negative"),
            ("round", "rounded", "rounding"),
        ),
        probe("errors", "Why did the test of an unreadable ledger fail at first?", ("sort", "pipeline")),
        probe("errors", "With which exit status does the program end where the ledger cannot be read?", "2"),
        probe(
            "next_step",
            "Which file is to be written next, and where does it put the program?",
            "install.sh",
            (".local/bin", "~/.local/bin"),
        ),
    ),
)
