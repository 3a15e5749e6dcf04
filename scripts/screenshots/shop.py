"""A small shop with a bug: the workspace of the session in the screenshots."""

from __future__ import annotations

import random

RATES = '''\
"""Exchange rates, published by the bank each afternoon."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from shop.store import load

_cache: dict[str, Decimal] = {}


def rate(currency: str, day: date) -> Decimal:
    """Units of `currency` for one euro on `day`. Raises `LookupError` if the bank has published none."""
    if currency not in _cache:
        _cache[currency] = load("rates", day)[currency]
    return _cache[currency]


def today() -> date:
    return datetime.now().date()
'''

ORDERS = '''\
"""Orders, priced in the customer's currency."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal

from shop.rates import rate

CENT = Decimal("0.01")


@dataclass(frozen=True)
class Order:
    number: int
    currency: str
    euros: Decimal
    day: date

    @property
    def total(self) -> Decimal:
        """The price for the customer, rounded once at the end."""
        return (self.euros * rate(self.currency, self.day)).quantize(CENT, ROUND_HALF_EVEN)
'''

STORE = '''\
"""Storage of rates: one file per day, written once."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path


def load(kind: str, day: date) -> dict[str, Decimal]:
    """Loads a day's file. Raises `FileNotFoundError`."""
    text = Path(f"data/{kind}-{day.isoformat()}.json").read_text()
    return {name: Decimal(value) for name, value in json.loads(text).items()}
'''

TEST = """\
import unittest
from datetime import date
from decimal import Decimal

from shop.orders import Order


class TotalTest(unittest.TestCase):
    def test_total_is_in_the_customers_currency(self):
        order = Order(1, "SEK", Decimal("10.00"), date(2026, 11, 16))
        self.assertEqual(order.total, Decimal("109.42"))


if __name__ == "__main__":
    unittest.main()
"""

NEW_TEST = """\
import unittest
from datetime import date
from decimal import Decimal

from shop.orders import Order

MONDAY, TUESDAY = date(2026, 11, 16), date(2026, 11, 17)


class TotalTest(unittest.TestCase):
    def test_total_is_in_the_customers_currency(self):
        self.assertEqual(Order(1, "SEK", Decimal("10.00"), MONDAY).total, Decimal("109.42"))

    def test_each_day_has_its_own_rate(self):
        self.assertEqual(Order(1, "SEK", Decimal("10.00"), MONDAY).total, Decimal("109.42"))
        self.assertEqual(Order(2, "SEK", Decimal("10.00"), TUESDAY).total, Decimal("111.08"))


if __name__ == "__main__":
    unittest.main()
"""


def _log(day: int, lines: int) -> str:
    rng = random.Random(day)
    rows = []
    for number in range(lines):
        minute = number * 1440 // lines
        rate = "10.942" if day == 16 or minute < 95 else "11.108"
        rows.append(
            f"2026-11-{day}T{minute // 60:02}:{minute % 60:02}:{rng.randint(0, 59):02}Z INFO shop.orders"
            f" order={rng.randint(20_000, 99_999)} currency=SEK euros={rng.randint(5, 400)}.{rng.randint(0, 99):02}"
            f" rate={rate} worker={rng.randint(1, 4)}"
        )
    return "\n".join(rows) + "\n"


FILES = {
    "README.md": "# shop\n\nPrices orders in the customer's currency.\n\n    python3 -m unittest discover -s tests\n",
    "data/rates-2026-11-16.json": '{"SEK": "10.942", "CHF": "0.931", "NOK": "11.671"}\n',
    "data/rates-2026-11-17.json": '{"SEK": "11.108", "CHF": "0.929", "NOK": "11.702"}\n',
    "logs/orders-2026-11-16.log": _log(16, 140),
    "logs/orders-2026-11-17.log": _log(17, 140),
    "shop/__init__.py": "",
    "shop/orders.py": ORDERS,
    "shop/rates.py": RATES,
    "shop/store.py": STORE,
    "tests/test_orders.py": TEST,
}
