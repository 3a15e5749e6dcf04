"""Commands that print far more than a model can use; a few lines in them matter."""

from __future__ import annotations

from benchmarks.histories.story import Story, edit, plan, probe, sh, step, turn, write

_GENERATE = """\
#!/bin/sh
# Writes the shipments of a month: id, depot, weight in kg, state.
awk 'BEGIN {
    split("Aachen Bremen Cottbus Dresden Emden", depot, " ")
    seed = 4242
    print "id,depot,weight,state"
    for (n = 1; n <= 9000; n++) {
        seed = (seed * 1103 + 12345) % 65536
        state = "delivered"
        weight = 1 + seed % 40
        if (n == 4711) { state = "lost"; weight = 38 }
        if (n == 7312) weight = -5
        id = n == 8113 ? 8112 : n
        printf "S%05d,%s,%d,%s\\n", id, depot[1 + seed % 5], weight, state
    }
}' > shipments.csv
"""

_CHECK = """\
#!/bin/sh
# Lists what is wrong with shipments.csv; silent where nothing is.
awk -F, 'NR > 1 && $3 < 0 { print "negative weight: " $0 }' shipments.csv
awk -F, 'NR > 1 && seen[$1]++ { print "id twice: " $0 }' shipments.csv
awk -F, '$4 == "lost" { print "lost: " $0 }' shipments.csv
"""

_ITEMS = ("Look at the data", "Find what is wrong", "Write check.sh", "Sums by depot", "Hand over a report")

HUGE_OUTPUTS = Story(
    "huge_outputs",
    "A month of shipments is printed whole, several times; three rows of 9,000 are wrong.",
    (
        turn(
            "generate.sh writes shipments.csv, the shipments of September. Our insurer Hansa-Kontor asks which rows are"
            " wrong: weights below zero, ids that occur twice, and what was lost. Do not change shipments.csv itself."
            " Write a script that lists the faults and a report.md for the insurer.",
            step("I begin with the generator that was described.", plan(0, *_ITEMS), write("generate.sh", _GENERATE)),
            step("Running it, and a look at all of it.", sh("sh generate.sh; wc -l shipments.csv; cat shipments.csv")),
            step(
                "Most of it was left out of what I see. Sorted by weight the odd ones stand first.",
                sh("sort -t, -k3,3n shipments.csv"),
            ),
            step(
                "S07312 has a weight of -5. Next the ids, with how often each occurs.",
                sh("cut -d, -f1 shipments.csv | sort | uniq -c | sort -rn"),
            ),
            step(
                "S08112 occurs twice, and S08113 not at all: the second row is most likely S08113, mistyped. Printing"
                " whole files costs too much, so from now on I only print rows that match.",
                sh("grep -n S0811 shipments.csv"),
                plan(1, *_ITEMS),
            ),
            step("What was lost?", sh("grep -v delivered shipments.csv")),
            step(
                "S04711 of 38 kg was lost. A join with the carrier's list would tell by whom; is there one?",
                sh("cat carrier.csv"),
            ),
            step(
                "carrier.csv does not exist, so the report leaves the carrier open. Now check.sh.",
                plan(2, *_ITEMS),
                write("check.sh", _CHECK),
                sh("sh check.sh"),
            ),
            step("All three kinds of fault are listed by check.sh: S07312, S08112 and S04711."),
        ),
        turn(
            "The insurer also wants the weight by depot. Leave the row with the negative weight out of the sums, and"
            " give tonnes, not kilograms.",
            step(
                "Sums, printed with each step of the sum to see that none goes wrong.",
                plan(3, *_ITEMS),
                sh("awk -F, 'NR > 1 { sum[$2] += $3; print NR, $2, sum[$2] }' shipments.csv"),
            ),
            step(
                "That still has the negative row, and kilograms. Properly:",
                sh(
                    "awk -F, 'NR > 1 && $3 >= 0 { sum[$2] += $3 } END { for (d in sum) printf \"%s %.1f t\\n\", d, sum[d] / 1000 }' shipments.csv | sort | tee depots.txt"
                ),
            ),
            step(
                "Is the number of rows right that went into it? I list them once more.",
                sh("awk -F, 'NR > 1 && $3 >= 0' shipments.csv | tee used.csv; wc -l used.csv"),
            ),
            step(
                "8,999 rows: all but S07312. check.sh should give its result as exit status as well, 3 where there are"
                " faults.",
                edit(
                    "check.sh",
                    "# Lists what is wrong with shipments.csv; silent where nothing is.\n",
                    "# Lists what is wrong with shipments.csv; silent where nothing is. Exit status 3 with faults.\n",
                ),
                sh("rm used.csv; ls"),
            ),
            step(
                "The sums are in depots.txt. What remains is report.md, for which I read them once more.",
                plan(4, *_ITEMS),
                sh("cat depots.txt; sh check.sh"),
            ),
            cut=True,
        ),
    ),
    (
        probe("task", "Who asked for the wrong rows, and of which month are the data?", "Hansa-Kontor", "September"),
        probe("task", "Which file must not be changed?", "shipments.csv"),
        probe("files", "Which script lists the faults, and where are the sums by depot?", "check.sh", "depots.txt"),
        probe(
            "decisions",
            "Which row is left out of the sums, and in which unit are they given?",
            "S07312",
            ("tonnes", "tons"),
        ),
        probe("decisions", "Which exit status stands for faults found?", "3"),
        probe("errors", "Which id occurs twice, and what should it most likely be?", "S08112", "S08113"),
        probe("errors", "Which shipment was lost, and how heavy was it?", "S04711", "38"),
        probe("errors", "Which file that was wanted for a join turned out to be missing?", "carrier.csv"),
        probe("next_step", "Which file remains to be written?", "report.md"),
    ),
)
