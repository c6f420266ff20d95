"""The ten figures that the hot path has to reach: what is compared with what, and from where on it is met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tests.bench.contenders import HAPROXY, NGINX, OURS_IN_PYTHON, PLAIN, UNSTAMPED, UNSTAMPED_IN_PYTHON
from tests.bench.loads import ANCHOR, BUSY, FLOOD, IDLE, SHORT, STUCK, Load
from tests.bench.measured import Measured
from tests.bench.results import Figure, Results
from tests.bench.spreads import Spread


class Compared(Enum):
    """How a figure is taken."""

    ALONE = "alone"
    RATIO = "×"
    DIFFERENCE = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One limit of a figure. limit: at most, or at least where is_least. form, unit: how a number of it is
    written.
    """

    load: Load
    figure: Figure
    limit: float
    against: str = ""
    compared: Compared = Compared.ALONE
    is_least: bool = False
    form: str = "{:.2f}"
    unit: str = ""

    @property
    def text(self) -> str:
        against = f" {self.compared.value} {self.against}" if self.against else ""
        return f"{'≥' if self.is_least else '≤'} {self.form.format(self.limit)}{self.unit}{against}"

    def of(self, results: Results, contender: str) -> Spread | None:
        """What a contender reached, None where that is not known."""
        match self.compared:
            case Compared.ALONE:
                return results.alone(self.load.name, contender, self.figure)
            case Compared.RATIO:
                return results.ratio(self.load.name, contender, self.against, self.figure)
            case Compared.DIFFERENCE:
                return results.difference(self.load.name, contender, self.against, self.figure)

    def is_met(self, reached: Spread) -> bool:
        """By its median."""
        return reached.median >= self.limit if self.is_least else reached.median <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure. must: all of these; aim: where that is for later. of: whose it is, where that is not who has to
    reach the others.
    """

    number: int
    title: str
    must: tuple[Goal, ...]
    aim: Goal
    of: str | None = None

    @property
    def load(self) -> Load:
        return self.must[0].load


def _cpu_us(measured: Measured) -> float:
    return measured.cpu_us_per_event


def _request_us(measured: Measured) -> float:
    return measured.cpu_us_per_request


def _p50_us(measured: Measured) -> float:
    return measured.p50_us


def _p99_us(measured: Measured) -> float:
    return measured.p99_us


def _percent(measured: Measured) -> float:
    return measured.cpu_share * 100


def _delivered_percent(measured: Measured) -> float:
    return measured.delivered * 100


def _per_core(measured: Measured) -> float:
    return measured.events_per_core_s


def _kb(measured: Measured) -> float:
    return measured.kb_per_stream


def _ratio(load: Load, figure: Figure, against: str, limit: float, *, is_least: bool = False) -> Goal:
    return Goal(load=load, figure=figure, against=against, compared=Compared.RATIO, limit=limit, is_least=is_least)


def _over_nginx_us(limit: float) -> Goal:
    over = Compared.DIFFERENCE
    return Goal(load=ANCHOR, figure=_p50_us, against=NGINX, compared=over, limit=limit, form="{:+.0f}", unit=" µs")


def _kb_at(load: Load, limit: float) -> Goal:
    return Goal(load=load, figure=_kb, limit=limit, form="{:.0f}", unit=" KB")


WITH_COMPILED_PART, WITHOUT = 1.06, 1.15
"""What looking at a stream may cost with a compiled splitter and stamper, and with those in Python."""


def rows(*, has_compiled: bool) -> tuple[Row, ...]:
    """All that are measured; the tenth, of what is stored, needs no machine (`tests.bench.stored`).

    has_compiled: the sidecar has its compiled parts; then the third is asked of both, with them and without.
    """
    looking = WITH_COMPILED_PART if has_compiled else WITHOUT
    in_python = Row(
        number=3,
        title="the same, nothing compiled",
        must=(_ratio(ANCHOR, _cpu_us, UNSTAMPED_IN_PYTHON, WITHOUT),),
        aim=_ratio(ANCHOR, _cpu_us, UNSTAMPED_IN_PYTHON, 1.02),
        of=OURS_IN_PYTHON,
    )
    return (
        Row(
            number=1,
            title="CPU per event ÷ nginx's",
            must=(_ratio(ANCHOR, _cpu_us, NGINX, 1.45),),
            aim=_ratio(ANCHOR, _cpu_us, NGINX, 1.10),
        ),
        Row(
            number=2,
            title="CPU per event ÷ a plain aiohttp proxy's",
            must=(_ratio(ANCHOR, _cpu_us, PLAIN, 0.80),),
            aim=_ratio(ANCHOR, _cpu_us, PLAIN, 0.65),
        ),
        Row(
            number=3,
            title="stamping, classing and the span: with ÷ without",
            must=(_ratio(ANCHOR, _cpu_us, UNSTAMPED, looking),),
            aim=_ratio(ANCHOR, _cpu_us, UNSTAMPED, 1.02),
        ),
        *((in_python,) if has_compiled else ()),
        Row(
            number=4,
            title="half of the events later than by nginx by",
            must=(_over_nginx_us(50),),
            aim=_over_nginx_us(10),
        ),
        Row(
            number=5,
            title="25,000 events/s on one core",
            must=(
                Goal(load=BUSY, figure=_percent, limit=85, form="{:.0f}", unit=" %"),
                Goal(load=BUSY, figure=_delivered_percent, limit=99, is_least=True, form="{:.1f}", unit=" %"),
            ),
            aim=_ratio(BUSY, _cpu_us, NGINX, 1.10),
        ),
        Row(
            number=6,
            title="flood, events a second of one core",
            must=(_ratio(FLOOD, _per_core, NGINX, 1.0, is_least=True),),
            aim=_ratio(FLOOD, _per_core, HAPROXY, 1.0, is_least=True),
        ),
        Row(number=7, title="memory of an idle stream", must=(_kb_at(IDLE, 40),), aim=_kb_at(IDLE, 24)),
        Row(
            number=8,
            title="memory of a stream in flood that nobody reads",
            must=(_kb_at(STUCK, 512),),
            aim=_kb_at(STUCK, 128),
        ),
        Row(
            number=9,
            title="short request, CPU ÷ a plain aiohttp proxy's",
            must=(_ratio(SHORT, _request_us, PLAIN, 1.0),),
            aim=_ratio(SHORT, _request_us, PLAIN, 0.85),
        ),
    )


FIGURES: Final[Mapping[str, tuple[tuple[str, Figure, str], ...]]] = {
    ANCHOR.name: (
        ("CPU µs/event", _cpu_us, "{:.1f}"),
        ("p50 µs", _p50_us, "{:.0f}"),
        ("p99 µs", _p99_us, "{:.0f}"),
        ("with request and record", lambda measured: measured.all_cpu_us_per_event, "{:.1f}"),
    ),
    BUSY.name: (
        ("CPU µs/event", _cpu_us, "{:.1f}"),
        ("CPU %", _percent, "{:.0f}"),
        ("delivered %", _delivered_percent, "{:.1f}"),
        ("p50 µs", _p50_us, "{:.0f}"),
    ),
    "light": (("CPU µs/event", _cpu_us, "{:.0f}"), ("p50 µs", _p50_us, "{:.0f}")),
    FLOOD.name: (("1,000 events/s of a core", lambda measured: _per_core(measured) / 1_000, "{:,.0f}"),),
    SHORT.name: (("CPU µs/request", _request_us, "{:.0f}"), ("p50 µs", _p50_us, "{:.0f}")),
    IDLE.name: (("KB a stream", _kb, "{:.1f}"),),
    STUCK.name: (("KB a stream", _kb, "{:.0f}"),),
}
"""What is told of every contender under a load; the first is also told by nginx's and by the plain proxy's."""

OVERVIEW: Final[Sequence[tuple[str, Load, Figure, str]]] = (
    ("µs/event", ANCHOR, _cpu_us, "{:.1f}"),
    ("with request and record", ANCHOR, lambda measured: measured.all_cpu_us_per_event, "{:.1f}"),
    ("p50 µs", ANCHOR, _p50_us, "{:.0f}"),
    ("% at 25,000/s", BUSY, _percent, "{:.0f}"),
    ("1,000/s in flood", FLOOD, lambda measured: _per_core(measured) / 1_000, "{:,.0f}"),
    ("µs/request", SHORT, _request_us, "{:.0f}"),
    ("KB idle", IDLE, _kb, "{:.1f}"),
    ("KB unread", STUCK, _kb, "{:.0f}"),
)
"""All loads in one table: medians, and nothing beside them."""
