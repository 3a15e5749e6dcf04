"""Skills in the system text: names and descriptions of whatever a front matter holds, bounded and on one line each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.skills import Skill, parse_skill, render_skills
from app.context.tokens import estimate_text

PATH = ".agents/skills/pdf/SKILL.md"


def test_a_front_matter_names_and_describes() -> None:
    text = "---\r\nname: pdf\r\ndescription: >\r\n  Fills forms.\r\n  Use for PDFs.\r\nlicense: MIT\r\n---\r\n# How\r\n"
    assert parse_skill(text, PATH) == Skill("pdf", "Fills forms. Use for PDFs.", PATH)


def test_what_cannot_be_seen_is_not_shown() -> None:
    text = '---\nname: pdf\ndescription: "a\\e[2Jb\\u202Ec\\Nd"\n---\n'
    assert parse_skill(text, PATH) == Skill("pdf", "a [2Jb c d", PATH)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# no front matter",
        "---\nname: pdf\ndescription: never ends",
        "---\nname: pdf\n---\n",
        "---\nname: [pdf]\ndescription: a list is no name\n---\n",
        "---\n- a\n- list\n---\n",
        "---\nname: pdf\ndescription: 'open\n---\n",
        "---\n" + "[" * 5_000 + "\n---\n",
        "---\nname: pdf\ndescription: valid\ncostly: [" + "[]," * 500 + "]\n---\n",
        "---\nname: pdf\ndescription: " + "x" * 10_000 + "\n---\n",
        "---\nname: !!python/object:os.system x\ndescription: y\nname: {{}: 1}\n---\n",
    ],
)
def test_what_is_no_front_matter_is_no_skill(text: str) -> None:
    assert parse_skill(text, PATH) is None


@given(st.text(max_size=300), st.text(max_size=2_000))
def test_nothing_in_a_front_matter_leaves_its_line(name: str, description: str) -> None:
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for text in (name, description)]
    skill = parse_skill(f'---\nname: "{quoted[0]}"\ndescription: "{quoted[1]}"\n---\n', PATH)
    if skill is not None:
        rendered = render_skills([skill], 1_000_000)
        assert len(rendered.splitlines()) == 3
        assert len(skill.name) <= 64
        assert len(skill.description) <= 1_024


def test_skills_take_a_bounded_share_and_the_first_of_a_name_counts() -> None:
    skills = [
        Skill(f"skill-{n}", "Does what is said at some length. " * 5, f".agents/skills/s{n}/SKILL.md")
        for n in range(50)
    ]
    rendered = render_skills(skills, 20_000)
    assert estimate_text(rendered) < 900
    assert "more in `.agents/skills`" in rendered.splitlines()[-1]
    assert render_skills([], 20_000) == ""
    twice = render_skills([Skill("a", "first", "x/a/SKILL.md"), Skill("a", "second", "y/a/SKILL.md")], 20_000)
    assert ("first" in twice, "second" in twice) == (True, False)
