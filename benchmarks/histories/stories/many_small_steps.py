"""A tool that grows by one line per step: many small changes."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.histories.story import Story, edit, plan, probe, sh, step, turn, write
from tests.provider import Reply

_TOOL = """\
#!/bin/sh
# convert.sh VALUE FROM TO: converts between units.
set -eu
case "$2-$3" in
    # more
    *) echo "unknown conversion $2-$3" >&2; exit 64 ;;
esac
awk -v value="$1" -v factor="$factor" 'BEGIN { printf "%.6g\\n", value * factor }'
"""

_UNITS = (
    ("km", "mi", "0.621371", "a kilometre in statute miles"),
    ("mi", "km", "1.609344", "exact by definition since 1959"),
    ("m", "ft", "3.28084", "the international foot"),
    ("ft", "m", "0.3048", "exact"),
    ("in", "cm", "2.54", "exact"),
    ("cm", "in", "0.393701", "the inverse"),
    ("yd", "m", "0.9144", "exact"),
    ("nmi", "km", "1.852", "the nautical mile, exact"),
    ("kg", "lb", "2.204623", "avoirdupois"),
    ("lb", "kg", "0.45359237", "exact"),
    ("oz", "g", "28.349523", "avoirdupois again"),
    ("g", "oz", "0.035274", "the inverse"),
    ("st", "kg", "6.350293", "fourteen pounds"),
    ("ha", "ac", "2.471054", "hectares to acres"),
    ("ac", "m2", "4046.856422", "the international acre"),
    ("l", "gal", "0.264172", "litres to gallons"),
)

_LATER = (
    ("kn", "kmh", "1.852", "knots"),
    ("mph", "kmh", "1.609344", "road speed"),
    ("kwh", "mj", "3.6", "exact"),
    ("kcal", "kj", "4.184", "the thermochemical calorie"),
    ("hp", "kw", "0.745700", "mechanical horsepower"),
    ("bar", "psi", "14.503774", "pressure of tyres"),
    ("atm", "pa", "101325", "exact"),
)


def _steps(units: tuple[tuple[str, str, str, str], ...]) -> Iterator[Reply]:
    for source, target, factor, remark in units:
        yield step(
            f"{source} to {target}: factor {factor}, {remark}.",
            edit("convert.sh", "    # more\n", f"    {source}-{target}) factor={factor} ;;\n    # more\n"),
            sh(f"sh convert.sh 10 {source} {target}"),
        )


_ITEMS = ("Lengths and masses", "Volumes", "Speed, energy, pressure", "Temperatures", "An option that lists all units")

MANY_SMALL_STEPS = Story(
    "many_small_steps",
    "A unit converter, to which one conversion after the other is added and tried.",
    (
        turn(
            "Build convert.sh, a unit converter for our weather station's handbook: `convert.sh 10 km mi`. Add one"
            " conversion at a time and try each. An unknown conversion must end with exit status 64 and a message on"
            " standard error.",
            step("The skeleton, and a plan.", plan(0, *_ITEMS), write("convert.sh", _TOOL)),
            step("An unknown unit first.", sh("sh convert.sh 10 parsec km")),
            *_steps(_UNITS),
            step(
                "Gallons the other way. I take 4.54609 first.",
                edit("convert.sh", "    # more\n", "    gal-l) factor=4.54609 ;;\n    # more\n"),
                plan(1, *_ITEMS),
            ),
            step(
                "There and back must give what it was.",
                sh(
                    'back=$(sh convert.sh "$(sh convert.sh 100 l gal)" gal l); echo "100 l came back as $back l"; [ "$back" = 100 ]'
                ),
            ),
            step(
                "120.095 instead of 100: 4.54609 is the imperial gallon, while l-gal uses the US one. Decision: all"
                " gallons in convert.sh are US gallons, so gal-l is 3.785412.",
                edit("convert.sh", "gal-l) factor=4.54609 ;;", "gal-l) factor=3.785412 ;;"),
                sh("sh convert.sh 1 gal l"),
            ),
            step("Lengths, masses, areas and volumes are in; gallons are US gallons."),
        ),
        turn(
            "Fine. Go on with speed, energy and pressure. Do not add pints, nobody uses them here. After that"
            " temperatures, then an option that lists all conversions.",
            step("Next group.", plan(2, *_ITEMS)),
            *_steps(_LATER),
            step(
                "Temperatures need an offset, which a factor cannot give. I add a variable offset, 0 by default, and"
                " print value * factor + offset.",
                plan(3, *_ITEMS),
                edit("convert.sh", 'case "$2-$3" in', 'offset=0\ncase "$2-$3" in'),
                edit("convert.sh", '-v factor="$factor"', '-v factor="$factor" -v offset="$offset"'),
                edit("convert.sh", "value * factor }", "value * factor + offset }"),
            ),
            step(
                "Celsius to Fahrenheit.",
                edit("convert.sh", "    # more\n", "    c-f) factor=1.8 offset=32 ;;\n    # more\n"),
                sh("sh convert.sh 100 c f"),
            ),
            step(
                "And back.",
                edit("convert.sh", "    # more\n", "    f-c) factor=0.5555556 offset=-17.7777778 ;;\n    # more\n"),
                sh("sh convert.sh 212 f c"),
            ),
            step(
                "100 as it should be. Kelvin.",
                edit("convert.sh", "    # more\n", "    c-k) factor=1 offset=273.15 ;;\n    # more\n"),
                sh("sh convert.sh 0 c k"),
            ),
            step(
                "Left is the option --list. It will read the case labels out of the script itself, so that no second"
                " list can go out of date. How many are there?",
                plan(4, *_ITEMS),
                sh("grep -c 'factor=.*;;' convert.sh; sed -n '1,12p' convert.sh"),
            ),
            cut=True,
        ),
    ),
    (
        probe("task", "For whose handbook is the converter made?", ("weather station", "weather station's")),
        probe("task", "With which exit status must an unknown conversion end?", "64"),
        probe("files", "In which file is the converter?", "convert.sh"),
        probe("decisions", "Which kind of gallon does the converter use?", ("US", "U.S.")),
        probe("decisions", "How did temperatures become possible, since a factor alone is not enough?", "offset"),
        probe("decisions", "Which unit did the user not want to have added?", ("pints", "pint")),
        probe("errors", "Which wrong factor was used for gal-l at first, and what was it?", "4.54609", "imperial"),
        probe("errors", "What did 100 litres come back as before that was mended?", ("120.095", "120.09")),
        probe(
            "next_step",
            "What is to be added to the converter next, and out of what does it take its entries?",
            ("--list", "list"),
            ("case labels", "the script itself", "case"),
        ),
    ),
)
