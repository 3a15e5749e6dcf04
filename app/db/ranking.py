"""Ranks the passages that a search found, and chooses what is shown of each. Pure: texts in, texts out."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from app.db.fulltext import Passage, fold, folded_words

PASSAGE_CHARS = 1_200
"""Characters of a passage: a long output is found by its parts, and a few sentences stay together."""

SNIPPETS_CHARS = 950
"""Characters of all snippets together, so that a search returns at most 1,500 with the ids."""
SHARES = (10, 9, 8, 7, 6, 3, 3, 3)
"""How they are divided among the places: most searches are answered by the first."""

MAX_TERMS = 16
"""Terms of a query that are used."""

STOP_WORDS = frozenset(
    folded_words(
        "called come comes exactly first happened last left next say says said tell told "
        "a about after again all also an and any are as at be because been before being both but by can could did "
        "do does for from had has have how i if in into is it its itself just may me might more most must my no "
        "nor not now of off on once only or other our out over own same shall she should so some such than that "
        "the their them then there these they this those to too under until up us very was we were what when where "
        "which while who whom whose why will with would you your"
    )
)
"""Words that say nothing about a place; used only if a query has no others."""

ROLE_WEIGHTS = {"user": 1.35, "assistant": 1.25, "summary": 0.6, "control": 0.7}
"""Messages of user and agent state current facts; outputs repeat themselves; a summary is in the context already."""
CALL_WEIGHT = 0.9
"""A call shows what was run, its result what came of it."""
EXACT_BONUS = 4.0
"""For a passage with all paths, ids and quoted texts of the query as written; a rare word has 7, a common one 2."""
TELLING_BONUS = 1.5
"""For a passage or a line that reports an error."""
ODD_LINE_BONUS = 1.2
"""For a line unlike the others of its passage."""
NEAR_SHARE = 0.6
NEAR_CHARS = 120
"""Terms count again, by this share, if they are within this many characters: about a line."""
MOST_STARTS = 40
"""Places in a line at which its shown part may start; a line can consist of hits."""

_TERM = re.compile(r'"([^"]*)"|([^\s"]+)')
_GLUED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]{2,}")
"""Runs of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
_KANA_ONLY = re.compile(r"[\u3040-\u309f]+")
"""Hiragana, in which Japanese writes its particles and endings."""
_EDGES = ".,;:!?()[]{}<>`'"
_TELLING = (
    *("error", "fail", "exception", "refused", "denied", "cannot", "not found", "no such", "missing", "invalid"),
    *("timeout", "warning", "fatal"),
)
_DIGITS = re.compile(r"[a-f]*+[0-9][0-9a-f]*+")
_SENTENCE_END = re.compile(r"([.!?;])[^\S\n]\s*")


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a query, or several that stand together. It is `exact` if it is quoted or written like a path: then a
    place with its very characters comes first."""

    text: str
    exact: bool = False
    weight: float = 1.0


def pairs(text: str) -> list[str]:
    """The pairs of neighboring characters of scripts without spaces, by which parts of such texts are found."""
    runs = _GLUED.findall(fold(text))
    found = dict.fromkeys(run[place : place + 2] for run in runs for place in range(len(run) - 1))
    # Two signs, such as a vowel and a tone in Thai, are no word.
    return list(filter(folded_words, found))


def passages(text: str) -> Iterator[str]:
    """A text in parts of at most `PASSAGE_CHARS` characters, cut after a line or a word if possible."""
    start = 0
    while len(text) - start > PASSAGE_CHARS:
        limit = start + PASSAGE_CHARS
        least = start + PASSAGE_CHARS // 2
        end = max(text.rfind("\n", least, limit), text.rfind(" ", limit - 100, limit)) + 1
        if (line := text.rfind("\n", least, limit) + 1) > 0:
            end = line
        end = end if end > start else limit
        yield text[start:end]
        start = end
    yield text[start:]


def terms_of(query: str) -> list[Term]:
    """The terms of a query: words other than stop words, quoted phrases, and paths and ids both whole and in words."""
    found: dict[str, Term] = {}
    every: list[str] = []
    for phrase, word in _TERM.findall(query):
        text = phrase.strip() or word.strip(_EDGES)
        words = folded_words(text)
        if not words:
            continue
        every.append(text)
        if not phrase and (glued := [pair for pair in pairs(text) if not _KANA_ONLY.fullmatch(pair)]):
            found.update((pair, Term(pair)) for pair in glued)
            continue
        whole = " ".join(words)
        exact = bool(phrase.strip()) or len(words) > 1
        if exact or whole not in STOP_WORDS:
            found.setdefault(whole, Term(text, exact, 1.5 if exact or any(map(str.isdigit, text)) else 1.0))
        if len(words) > 1 and not phrase:
            for part in words:
                if part not in STOP_WORDS and len(part) > 1:
                    found.setdefault(part, Term(part, weight=0.5))
    found = found or {text: Term(text) for text in every}
    return list(found.values())[:MAX_TERMS]


class Query:
    """The terms of a query and their weights, from the number of passages that have it. A set of its terms is a
    number that has the bit of each."""

    def __init__(self, terms: Sequence[Term], counts: Sequence[int]) -> None:
        self.terms = terms
        self.weights = [
            term.weight * math.log(1 + 3_000 / (1 + count)) for term, count in zip(terms, counts, strict=True)
        ]
        self._values: dict[int, float] = {}

    @cached_property
    def _forms(self) -> list[tuple[int, str, re.Pattern[str]]]:
        """The bit of each term, a text that all its forms contain, and a pattern of them."""
        return [(1 << number, *_form(term)) for number, term in enumerate(self.terms)]

    @cached_property
    def _exact(self) -> list[str]:
        return [fold(term.text) for term in self.terms if term.exact]

    def hits(self, folded: str) -> list[tuple[int, int]]:
        """Place and bit of each term in a folded text, in any form of its words, in order."""
        found = []
        for bit, part, form in self._forms:
            found += [(match.start(), bit) for match in _places(folded, part, form)]
        found.sort()
        return found

    def terms_in(self, folded: str) -> int:
        """The terms that a folded text has, in any form of their words."""
        found = 0
        for bit, part, form in self._forms:
            # Faster than a search for the pattern alone.
            if part in folded and form.search(folded):
                found |= bit
        return found

    def exact_share(self, folded: str) -> float:
        """The share of the exact terms that a folded text has with their very characters."""
        return sum(text in folded for text in self._exact) / len(self._exact) if self._exact else 0.0

    def value(self, terms: int) -> float:
        """How informative a set of terms is."""
        known = self._values.get(terms)
        if known is None:
            known = sum(weight for number, weight in enumerate(self.weights) if terms >> number & 1)
            self._values[terms] = known
        return known


def _places(folded: str, part: str, form: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """The matches of a form, all of which contain `part`."""
    # Faster than a search for the pattern.
    return form.finditer(folded) if part in folded else iter(())


def _terms(hits: Iterable[tuple[int, int]]) -> int:
    """The terms of hits."""
    return sum({bit for _, bit in hits})


def _form(term: Term) -> tuple[str, re.Pattern[str]]:
    """A text that all forms of a term contain, and a pattern for its words with other endings."""
    text = fold(term.text)
    if _GLUED.fullmatch(text):
        return text, re.compile(re.escape(text))
    words = folded_words(text)
    stems = [*words[:-1], _rough_stem(words[-1])]
    first, *others = map(re.escape, stems)
    # A pattern that begins with letters is searched for faster: that no other letter is before them is checked then.
    form = r"[\W_]+".join([rf"{first}(?<![^\W_]{first})", *others])
    ending = r"[^\W\d_]{0,4}" if len(stems[-1]) > 2 else ""
    return stems[0], re.compile(rf"{form}{ending}(?![^\W_])")


def _rough_stem(word: str) -> str:
    """About what the databases reduce a word to; never empty, which would be found everywhere."""
    return re.sub(r"(?<=..)(ations?|ings?|ied|ies|ed|es|e|s|ly|y)$", "", word) if len(word) > 4 else word


def best(query: Query, found: Sequence[tuple[Passage, int]]) -> list[Passage]:
    """The passages, best first, one of each message's text and of each call. `found` has with each passage the terms
    that the database found for it."""
    scored = sorted(((_score(query, passage, terms), passage.id, passage) for passage, terms in found), reverse=True)
    return one_each(passage for _, _, passage in scored)


def one_each(found: Iterable[Passage]) -> list[Passage]:
    """The first passage of each message's text and of each call."""
    chosen: dict[str, Passage] = {}
    for passage in found:
        chosen.setdefault(passage.call_id or passage.message_id, passage)
    return list(chosen.values())


def _score(query: Query, passage: Passage, terms: int) -> float:
    folded = fold(passage.text)
    hits = query.hits(folded)
    # The database looks at some of the passages with a common term only.
    score = query.value(terms | _terms(hits)) + NEAR_SHARE * _near(query, hits)
    score += EXACT_BONUS * query.exact_share(folded) + TELLING_BONUS * _reports_error(folded)
    weight = CALL_WEIGHT if passage.call_id and passage.role == "assistant" else ROLE_WEIGHTS.get(passage.role, 1.0)
    return score * weight


def _reports_error(folded: str) -> bool:
    return any(map(folded.__contains__, _TELLING))


def _near(query: Query, hits: Sequence[tuple[int, int]]) -> float:
    """The value of the terms that stand nearest to each other, within about a line."""
    if not hits:
        return 0.0
    groups, terms, first = {hits[0][1]}, 0, 0
    last: dict[int, int] = {}
    for place, bit in hits:
        last[bit] = place
        terms |= bit
        while place - hits[first][0] > NEAR_CHARS:
            left, term = hits[first]
            if last[term] == left:
                terms ^= term
            first += 1
        if terms != bit:
            groups.add(terms)
    return max(map(query.value, groups))


# What is shown


def shown(query: Query, ranked: Sequence[Passage], limit: int, chars: int | None = None) -> list[tuple[Passage, str]]:
    """The first passages with their snippets, at most `limit`: each of at most about `chars` characters, or of its
    share of `SNIPPETS_CHARS`. One whose text is an earlier one's, or whose snippet differs only in numbers from an
    earlier one's, is left out."""
    if not ranked:
        return []
    rooms = [min(PASSAGE_CHARS, SNIPPETS_CHARS * share // sum(SHARES[: len(ranked)])) for share in SHARES]
    if chars is not None:
        rooms = [chars] * limit
    chosen: dict[str, tuple[Passage, str]] = {}
    seen: set[str] = set()
    for passage in ranked:
        if len(chosen) == min(limit, len(rooms)):
            break
        if passage.text in seen:
            continue
        seen.add(passage.text)
        text = snippet(query, passage.text, rooms[len(chosen)])
        chosen.setdefault(_form_of(text) or str(passage.id), (passage, text))
    return list(chosen.values())


def _form_of(text: str) -> str:
    return " ".join(word for word in folded_words(text) if len(word) > 1 and not word.isdigit())


def snippet(query: Query, text: str, room: int) -> str:
    """At most about `room` characters of a text: its lines and sentences that say most about the query, in order. One
    whose form occurs once says more than one of many alike, and so does one that reports an error."""
    if len(text.strip()) <= room:
        return " ".join(text.split())
    parts = [part for part in _SENTENCE_END.sub(r"\1\n", text).split("\n") if part]
    telling = _telling(query, parts)
    ranked = sorted(range(len(parts)), key=telling.__getitem__, reverse=True)
    chosen: dict[int, str] = {}
    left = room
    for number in ranked:
        part = " ".join(parts[number].split())
        if chosen and len(part) + 3 > left:
            if left < 60:
                break
            continue
        chosen[number] = part if len(part) <= left else _around(query, part, left)
        left -= len(chosen[number]) + 3
    return _joined(chosen)


def _telling(query: Query, parts: Sequence[str]) -> list[float]:
    """What each part says about the query."""
    # All parts at once, which is faster.
    whole = "\n".join(parts)
    folded, forms = fold(whole), _DIGITS.sub("0", whole).split("\n")
    lines, times = folded.split("\n"), Counter(forms)
    values = [query.value(query.terms_in(line)) for line in lines]
    if len(times) > 1:
        for number, form in enumerate(forms):
            values[number] += ODD_LINE_BONUS * (times[form] == 1 and len(parts[number]) > 8)
    if _reports_error(folded):
        for number, line in enumerate(lines):
            values[number] += TELLING_BONUS * _reports_error(line)
    return values


def _around(query: Query, part: str, room: int) -> str:
    """The part of a long line with most of the query's terms."""
    hits = query.hits(fold(part))
    starts = [place for place, _ in hits[:MOST_STARTS]] or [0]
    densest = max(
        starts, key=lambda start: query.value(_terms(hit for hit in hits if start <= hit[0] < start + room // 2))
    )
    first = max(0, min(densest - room // 4, len(part) - room))
    return f"{'…' if first else ''}{part[first : first + room].strip()}{'…' if first + room < len(part) else ''}"


def _joined(chosen: dict[int, str]) -> str:
    """Parts in the order of the text, with a sign where others are left out."""
    text, last = "", -1
    for number in sorted(chosen):
        text += (" … " if number > last + 1 and text else " ") + chosen[number]
        last = number
    return text.strip()


def highlights(query: str, text: str) -> list[tuple[int, int]]:
    """Where a query's words are in a text, in any of their forms, or as part of another word if there is no such word:
    start and end in code points, in order, without overlaps."""
    folded = [fold(char) for char in text]
    origin = [place for place, chars in enumerate(folded) for _ in chars]
    whole, terms = "".join(folded), terms_of(query)
    found = [match.span() for term in terms for match in _places(whole, *_form(term))]
    if not found:
        parts = filter(None, map(fold, [term.text for term in terms] or [query.strip()]))
        found = [match.span() for part in parts for match in re.finditer(re.escape(part), whole)]
    ranges: list[tuple[int, int]] = []
    for start, end in sorted(found):
        first, last = origin[start], origin[end - 1] + 1
        if ranges and first <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(last, ranges[-1][1]))
        else:
            ranges.append((first, last))
    return ranges
