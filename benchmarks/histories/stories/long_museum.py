"""The catalogue of a museum is cleaned, collection by collection. Set aside: nothing may be tuned by its results."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.histories.story import Story, plan, probe, read, search, sh, step, turn, write
from tests.provider import Reply

_COLLECTIONS = (
    *("amphorae", "barometers", "bells", "buttons", "cameos", "clocks", "coins", "compasses", "daggers", "dolls"),
    *("enamels", "fans", "flutes", "globes", "goblets", "helmets", "icons", "ivories", "kilims", "lamps", "locks"),
    *("maps", "masks", "medals", "mirrors", "mosaics", "netsuke", "organs", "pipes", "puppets", "quilts", "saddles"),
    *("scales", "seals", "spoons", "stamps", "sundials", "tapestries", "tiles", "violins"),
)

_MAKE = """\
#!/bin/sh
# Writes records/*.csv as the old database exported them.
mkdir -p records notes
k=0
for name in $(cat collections.txt); do
    k=$((k + 1))
    awk -v name="$name" -v k="$k" 'BEGIN {
        print "number,title,year,place,status"
        for (i = 1; i <= 60; i++) {
            year = 1500 + (i * k * 7) % 420
            if (i % 17 == 0) year = "ca. " year
            printf "%s-%04d,%s no. %d of the %s gift,%s,shelf %d/%d,%s\\n", toupper(substr(name, 1, 3)), i * k, name, i, (k % 2 ? "Holm" : "Brandt"), year, k, i % 12, (i % 9 ? "shown" : "stored")
        }
    }' > "records/$name.csv"
done
"""

_AUDIT = """\
#!/bin/sh
# Looks at the records of a collection: audit.sh NAME. findings.txt has what it finds in its middle: NAME|LINE
name=$1
[ -f "records/$name.csv" ] || { echo "audit: no collection $name" >&2; exit 66; }
found=$(grep "^$name|" findings.txt | cut -d'|' -f2-)
loose=$(grep -c 'ca\\. ' "records/$name.csv")
awk -F, -v found="$found" -v n=0 'NR > 1 {
    n++
    printf "record %s: title %d characters, year %s, %s, checksum %04x\\n", $1, length($2), ($3 ~ /ca/ ? "uncertain" : "exact"), $5, (n * 7919 + length($2) * 31) % 65536
    if (n == 33 && found != "") print found
}' "records/$name.csv"
if [ "$loose" -gt 0 ]; then echo "audit: $loose years of $name are not in the form of the standard"; exit 1; fi
echo "audit: $name is clean, 60 records"
"""

_FINDINGS = """\
amphorae|note: AMP-0012 and AMP-0047 are the same object, photographed twice
bells|sensor BX-778 in the case reports 61 % humidity
cameos|insurance policy HELV-20-5518 ends with this year
coins|error E-DUP-14: inventory number COI-0105 is used by two objects
compasses|loan to the maritime museum until 2027-06-30, contract L-3307
dolls|warning: celluloid, store below 18 degrees
fans|thesaurus term 300258989 is deprecated, use 300417586
globes|error E-REF-09: maker id ULAN-500115588 is unknown
helmets|restorer's report RR-442 recommends no display under light above 50 lux
kilims|moth trap M-31 caught 14 since the last count
locks|key of LOC-0084 is kept in safe 3, drawer F
medals|error E-DATE-02: 1873-02-30 is not a date
mirrors|image server answered 429 for MIR-0150, retry after 3600 s
netsuke|provenance gap 1938 to 1949 in NET-0081
organs|weight of ORG-0140 is 1,240 kg, floor allows 900 kg
puppets|rights of the photographs: estate of A. Lindqvist, until 2041
saddles|error E-UNIT-05: height 4.2 is neither cm nor in
seals|wax of SEA-0272 softens, moved to cold room CR-2
stamps|catalogue reference Mi. 17b, not Mi. 17a
tapestries|loom width 3.86 m measured on 2026-09-02
violins|dendrochronology report DC-1904 dates the top to 1716
"""

_REMARKS = {
    "barometers": "Four of the barometers still hold mercury; those stay on the list for the chemist, Dr. Yilmaz.",
    "buttons": "I merge nothing among the buttons, because two curators count them differently.",
    "clocks": "For the clocks the year of the movement counts, not that of the case.",
    "daggers": "Three daggers are weapons under the law of 2022, so their shelf must not appear in the public export.",
    "enamels": "The enamels came with the Brandt gift but carry Holm labels; the labels are wrong.",
    "flutes": "Decision: the flutes keep their old numbers in a column former_number, since visitors cite them.",
    "goblets": "goblets has line ends of Windows, which the importer counts as a sixth column.",
    "icons": "The icons use the Julian calendar; I leave those years as they are and mark them with (O.S.).",
    "ivories": "The ivories need a CITES certificate each, and 11 have none.",
    "lamps": "I chose 'oil lamp' over 'lucerna' as the preferred term, because the public searches for it.",
    "maps": "The scale of the maps goes into extent, not into the title.",
    "masks": "The masks of the Nuxalk are not shown online: the community asked for that in letter 2025/118.",
    "mosaics": "The mosaics are measured without their frames.",
    "pipes": "The root cause of the doubled pipes is the merge of two card files in 1987.",
    "quilts": "For quilts the importer wants the technique in English, max. 40 characters.",
    "scales": "scales is both a collection and a unit in the importer, therefore I rename its file to weighing_scales.csv at the end.",
    "spoons": "The spoons are hallmarked; the mark goes into inscription, verbatim and in capitals.",
    "sundials": "The sundials are outdoors, at 52.0907 N, and are audited in May only.",
    "tiles": "The tiles with glaze number 7 contain lead.",
}


def _cleaning(names: tuple[str, ...], done: int) -> Iterator[Reply]:
    for number, name in enumerate(names):
        calls = [plan(done, *_ITEMS)] if number == 0 else []
        yield step(f"The {name}.", *calls, sh(f"cat records/{name}.csv"))
        yield step("What does the audit say?", sh(f"sh audit.sh {name}"))
        yield step(
            _REMARKS.get(name, "Only the uncertain years."),
            sh(f"sed -i 's/,ca\\. \\([0-9]*\\),/,\\1?,/' records/{name}.csv && grep -c '?' records/{name}.csv"),
        )
        if number % 3 == 1:
            yield step("What else has such a year?", search(rf"^[A-Z]+-[0-9]+,{name} no\. (17|34|51) ", "records"))
        yield step("Again.", sh(f"sh audit.sh {name}"))
        if number % 2 == 0:
            yield step(
                "A note on it.",
                write(f"notes/{name}.md", f"# {name}\n\nYears: question mark instead of ca.\nAudited: 60 records.\n"),
            )
        yield step("The first lines, for the eye.", sh(f"head -12 records/{name}.csv; tail -12 records/{name}.csv"))


_ITEMS = (
    "Export of the old database",
    "Amphorae to dolls",
    "Enamels to lamps",
    "Locks to puppets",
    "Quilts to violins",
    "Letter to the curators",
)
_MINUTES = (
    "The minutes of Monday, so that you know what was said:\n\n"
    + "".join(
        f"{8 + n // 12}:{n * 5 % 60:02d} Hall {n % 9}: case {n * 3 % 41} is checked, lamp {n * 7 % 60} replaced, "
        f"{n * 11 % 300} visitors counted.\n"
        for n in range(70)
    )
    + "Decided unanimously: object names stay in the singular in titles, whatever the thesaurus has.\n"
    + "".join(f"Hall {n % 9}: guard {n * 13 % 29} reports window {n * 5 % 17} closed.\n" for n in range(60))
)

LONG_MUSEUM = Story(
    "long_museum",
    "A museum's catalogue of forty collections is cleaned for an import, with rules that change on the way.",
    (
        turn(
            "We clean the catalogue for the new system. make.sh writes the export, audit.sh checks a collection. Years like"
            " 'ca. 1640' become '1640?'. Never delete a record, and leave the inventory numbers alone. findings.txt is"
            " the conservators', read it only through the audit. Values of insurance must not get into any file.",
            step(
                "The export.",
                plan(0, *_ITEMS),
                write("collections.txt", "\n".join(_COLLECTIONS) + "\n"),
                write("findings.txt", _FINDINGS),
                write("make.sh", _MAKE),
                write("audit.sh", _AUDIT),
                sh("sh make.sh; wc -l records/*.csv | tail -1"),
            ),
            step("Is there a schema of the new system?", sh("cat schema/import.xsd")),
            *_cleaning(_COLLECTIONS[:5], 1),
            step("Five collections are clean."),
        ),
        turn(
            "Good. The curator of the coins is on leave; for questions about them ask Mette Sand. Go on to the dolls.",
            *_cleaning(_COLLECTIONS[5:10], 1),
            step("Ten are clean."),
        ),
        turn(
            "For the next ones: dimensions in millimetres, please, and no abbreviations in places. The import runs on 3"
            " December.\n\n" + _MINUTES,
            *_cleaning(_COLLECTIONS[10:20], 2),
            step("Twenty are clean."),
        ),
        turn(
            "Correction: centimetres with one decimal, the new system cannot take millimetres. And the shelf of anything in"
            " the vault has to read 'on request'.",
            *_cleaning(_COLLECTIONS[20:30], 3),
            step("How many question marks are there now?", sh("cat records/*.csv | grep -c '?'; sh audit.sh thimbles")),
            step("Thirty are clean. There is no collection of thimbles."),
        ),
        turn(
            "The import was moved to 10 December, the vendor is late. Write the letter to the curators in Danish, not in"
            " English as we said on the phone, and send it to nobody: it goes into letters/curators.md. Go on.",
            *_cleaning(_COLLECTIONS[30:], 4),
            step(
                "All forty are clean. A last count.",
                plan(5, *_ITEMS),
                sh(
                    "for n in $(cat collections.txt); do sh audit.sh $n | tail -1; done | sort | uniq -c | sort -rn | head -3"
                ),
                read("notes/amphorae.md"),
            ),
            cut=True,
        ),
    ),
    (
        probe("task", "What do years like 'ca. 1640' become?", "1640?"),
        probe("task", "What must be left alone in each record?", ("inventory numbers", "inventory number")),
        probe("task", "Whose file are the findings, and how may it be read only?", "conservators", "audit"),
        probe("task", "Which values must not get into any file?", "insurance"),
        probe("task", "Who answers questions about the coins?", "Mette Sand"),
        probe("task", "Which form do object names have in titles?", "singular"),
        probe("task", "What must places not contain?", ("abbreviations", "abbreviation")),
        probe("task", "What does the shelf of anything in the vault have to read?", "on request"),
        probe("decisions", "In which unit are dimensions given now?", ("centimetres", "cm"), outdated="millimetres"),
        probe("decisions", "When does the import run now?", "10 December", outdated="3 December"),
        probe("decisions", "In which language is the letter to the curators?", "Danish"),
        probe("files", "Where does the letter go?", "letters/curators.md"),
        probe("decisions", "Who is the chemist for the mercury in barometers?", "Yilmaz"),
        probe("decisions", "Which year counts for the clocks?", ("movement", "of the movement")),
        probe(
            "decisions",
            "Why must the shelf of three daggers stay out of the public export?",
            ("weapons", "law of 2022"),
        ),
        probe("decisions", "In which column do the flutes keep their old numbers?", "former_number"),
        probe("decisions", "How are years of the icons marked?", "O.S."),
        probe("decisions", "How many of the ivories have no CITES certificate?", "11"),
        probe("decisions", "Which preferred term was chosen for lamps, over which other?", "oil lamp", "lucerna"),
        probe("decisions", "In which letter did a community ask not to show its masks online?", "2025/118"),
        probe("decisions", "Where does the doubling of pipes come from?", ("card files", "1987")),
        probe("decisions", "To which name is the file of the scales renamed in the end?", "weighing_scales.csv"),
        probe("decisions", "Which glaze number of the tiles contains lead?", "7"),
        probe("errors", "Which inventory number is used by two objects?", "COI-0105"),
        probe("errors", "Which maker id of the globes is unknown?", "ULAN-500115588"),
        probe("errors", "Which date among the medals is none?", "1873-02-30"),
        probe("errors", "Which error code did the height of a saddle cause?", "E-UNIT-05"),
        probe("errors", "After how many seconds may the image server be asked again for a mirror?", "3600"),
        probe("errors", "What did reading the schema of the new system say?", "No such file or directory"),
        probe("errors", "Which collection does not exist, according to the audit?", "thimbles"),
        probe("files", "Until when are the compasses on loan, under which contract?", "2027-06-30", "L-3307"),
        probe("files", "Which term of the thesaurus replaces the deprecated one for fans?", "300417586"),
        probe("files", "Where is the key of one of the locks kept?", ("safe 3", "drawer F")),
        probe("files", "Which gap does the provenance in netsuke have?", ("1938 to 1949", "1938")),
        probe("files", "How heavy is the organ that the floor does not carry?", ("1,240 kg", "1240")),
        probe("files", "Which cold room was softening wax moved to?", "CR-2"),
        probe("files", "Who holds the rights of the photographs of puppets?", "Lindqvist"),
        probe("files", "Which report dates the top of a violin, and to which year?", "DC-1904", "1716"),
        probe("next_step", "What is left to be written?", ("Letter to the curators", "letter", "letters/curators.md")),
    ),
)
