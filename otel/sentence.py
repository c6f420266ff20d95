"""A verdict in one English sentence that an on-call engineer can paste into a ticket.

Every number in it stands in the verdict as well; nothing is said that the evidence does not reach.
"""

from __future__ import annotations

from typing import Final, assert_never

from otel.decompose import Decomposition, Wait
from otel.findings import Cause, Finding, Reach, Status, Verdict
from otel.hop import CLIENT, EGRESS, Ending
from otel.join import Path
from otel.lineup import Kind, Segment
from otel.tempo import Tempo

ALSO_TOLD: Final = 2
"""Further contributors that the sentence names, the largest first; the list of them has all."""

_ON_THE_WAY: Final = frozenset({Cause.SLOW_FIRST_EVENT, Cause.TRUNCATED})
"""What only a reader's own record shows behind the last tap: a request that came late to it, or an answer that was cut
behind it. Whether the reader or the link did that is not known."""

_REACHED: Final = {
    Reach.CONSUMED: "it was delivered and consumed on time",
    Reach.RECEIVED: "it was received by the client on time; whether it was consumed was not observed",
    Reach.READER_KERNEL: "it was delivered to the reader's machine on time; whether it was read was not observed",
    Reach.OUR_KERNEL: "{} handed it on in time; whether it was delivered was not observed",
}


def sentence(path: Path, verdict: Verdict) -> str:
    """The whole answer in one sentence (for an open stream: so far)."""
    so_far = " so far" if path.is_open else ""
    match verdict.status:
        case Status.HEALTHY:
            if path.is_open and not path.taps[-1].timeline.stamps:
                waited = seconds(path.taps[-1].moments.closed_ns)
                return f"No output has come yet, after {waited}, which is not longer than this source may take."
            reached = _REACHED[verdict.observed_to].format(path.taps[-1].place.hop)
            return f"No hop held this answer up{so_far}: {reached}{_unread(verdict)}{_pauses(path, verdict)}."
        case Status.INCONCLUSIVE:
            return f"Cannot tell which hop held this answer up{so_far}: {'; '.join(verdict.missing)}{_unread(verdict)}."
        case Status.NAMED:
            return _named(path, verdict, verdict.findings[0], so_far)
    assert_never(verdict.status)


def owner(path: Path, segment: Segment) -> str:
    """Whose a segment is. Where an expected tap is missing the owners on both sides of it are named together."""
    match segment.kind:
        case Kind.SIDECAR:
            return f"{segment.upstream} sidecar"
        case Kind.UI:
            return CLIENT
        case Kind.READER:
            return " or ".join([*path.absent_between(segment.upstream, None), CLIENT])
        case Kind.SOURCE:
            return " or ".join([*path.absent_between(None, segment.downstream), segment.downstream]) + " app"
        case Kind.BETWEEN:
            hidden = path.absent_between(segment.upstream, segment.downstream)
            if not segment.downstream.endswith(EGRESS):
                return " or ".join([*hidden, segment.downstream]) + " app"
            link = f"network between {segment.upstream} and {segment.downstream}"  # its own app is behind that tap
            return f"{' or '.join(hidden)} app or {link}" if hidden else link
    assert_never(segment.kind)


def blamed(path: Path, finding: Finding) -> str:
    """Whose the finding is: the segment's owner, or the link itself where the bytes were in the network."""
    segment = finding.segment
    link = f"network between {segment.upstream} and {segment.downstream}"
    if finding.cause is Cause.NETWORK:
        return link
    if segment.kind is Kind.READER and finding.cause in _ON_THE_WAY:
        return f"{owner(path, segment)} or the {link}"
    return owner(path, segment)


def seconds(ns: int) -> str:
    return f"{ns / 1e9:.2f} s"


def _unread(verdict: Verdict) -> str:
    """What its window says of a reader that is not named: it did not read, and it may have felt no wait at all."""
    unread = verdict.unread
    if unread is None or any(finding.cause is Cause.SLOW_READER for finding in verdict.findings):
        return ""
    share = f"{unread.window_bytes / unread.window_peak_bytes:.0%}"
    return (
        f"; for {seconds(unread.lasted_ns)} the reader left unread what it had, its window down to {share} of its peak"
    )


def _pauses(path: Path, verdict: Verdict) -> str:
    """What the reader waited for all the same: the first output, and then the longest pause."""
    said = []
    if verdict.first is not None:
        said.append(f"the first output came after {seconds(verdict.first.gap_ns)}")
    if verdict.longest is not None:
        said.append(f"the longest pause after it was {seconds(verdict.longest.gap_ns)}")
    hidden = next((f for f in verdict.findings if f.cause is Cause.HIDDEN_OUTPUT and f.decomposition), None)
    if hidden is not None:
        said.append(f"for {seconds(hidden.term_ns)} only reasoning or control events flowed, which did not reach it")
    said += [
        f"{blamed(path, f)} let output go in bursts, holding it for up to {seconds(f.term_ns)}"
        for f in verdict.findings
        if f.cause is Cause.BUFFERING
    ]
    if verdict.slow_source is not None:
        slow = verdict.slow_source
        said.append(f"it was slow all through, half of the gaps at {slow.tap} were {seconds(slow.median_ns)} or longer")
    said += _tempo(path, verdict.tempo)
    return f"; {', '.join(said)}" if said else ""


def _tempo(path: Path, tempo: Tempo | None) -> list[str]:
    """Where the source was slower than it is or than it was: nobody knows from outside whether it had a reason."""
    who, said = path.taps[0].place.tap, []
    if tempo is not None and tempo.is_slow and tempo.usual_ns is not None:
        said.append(f"{who} sent an event every {_ms(tempo.pace_ns)}, usually every {_ms(tempo.usual_ns)}")
    if tempo is not None and (slowed := tempo.slowed) is not None:
        said.append(
            f"{who} slowed down after {slowed.at_seq:,} events, from one every {_ms(slowed.before_ns)} to one every "
            f"{_ms(slowed.after_ns)}"
        )
    return said


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.0f} ms"


def _named(path: Path, verdict: Verdict, finding: Finding, so_far: str) -> str:
    wait = finding.decomposition
    if wait is None:
        return _broke_off(path, verdict, finding, so_far)
    who, term = blamed(path, finding), seconds(finding.term_ns)
    what = _wait(wait, finding)
    match finding.cause:
        case Cause.SOURCE_STALL:
            says = f"{who} sent nothing for {term}"
        case _ if wait.wait is Wait.PACE:
            says = f"{_slowly(path, finding)} more slowly than it came, {term} in all"
        case Cause.SLOW_READER:
            says = f"{_reader(path, finding)} did not take the answer for {term}"
        case Cause.UI_BLOCKED:
            says = f"the client had received the answer and did not consume it for {term}"
        case Cause.NETWORK:
            says = f"the {who} held the answer for {term}"
        case Cause.BUFFERING:
            says = f"{who} held output back and released it in bursts, up to {term} each time"
        case Cause.RETRY:
            says = f"{who} {finding.detail}, which took {term}"
        case Cause.SELF:
            says = f"our own sidecar at {finding.segment.upstream} held the answer for {term}"
        case _:
            says = f"{who} held the answer for {term}"
    also = _also(path, verdict)
    least = " at least" if path.is_open else ""  # it lasts at least as long as the last report says
    says = says.replace(f" for {term}", f" for{least} {term}")
    unsure = f"; {finding.detail}" if finding.detail and finding.cause is not Cause.RETRY else ""
    return f"{_upper(says)}{so_far}: {what} at the reader{_alone(verdict)}{also}{unsure}{_unread(verdict)}."


def _slowly(path: Path, finding: Finding) -> str:
    match finding.cause:
        case Cause.SLOW_READER:
            return f"{_reader(path, finding)} took the answer"
        case Cause.UI_BLOCKED:
            return "the client consumed the answer"
        case Cause.NETWORK:
            return f"the {blamed(path, finding)} carried the answer"
        case Cause.SELF:
            return f"our own sidecar at {finding.segment.upstream} passed the answer on"
        case _:
            return f"{blamed(path, finding)} passed the answer on"


def _reader(path: Path, finding: Finding) -> str:
    who = blamed(path, finding)
    return f"{'the reader' if who == CLIENT else who} behind {finding.segment.upstream}"


def _alone(verdict: Verdict) -> str:
    is_certain = verdict.findings[0].confidence >= 0.8
    return ", and no other hop added as much" if is_certain else ", as far as the records tell"


def _wait(wait: Decomposition, finding: Finding) -> str:
    gap = seconds(wait.gap_ns)
    match wait.wait:
        case Wait.FIRST_EVENT:
            return f"a {gap} wait for the first output"
        case Wait.END:
            return f"a {gap} wait for the end of the answer"
        case Wait.GAP:
            return f"a {gap} gap {_place(finding, finding.at_seq)}"
        case Wait.PACE:
            return f"{gap} without one long gap, from {_place(finding, finding.at_seq)} on,"
    assert_never(wait.wait)


def _broke_off(path: Path, verdict: Verdict, finding: Finding, so_far: str) -> str:
    if path.taps[0].end is not None and path.taps[0].end.ending is Ending.REFUSED and not finding.at_position:
        return f"{_upper(blamed(path, finding))} could not be reached: the answer never began{_also(path, verdict)}."
    after = f" {_place(finding, None if finding.at_seq is None else finding.at_seq + 1)}"
    who = blamed(path, finding)
    match finding.cause:
        case Cause.CLIENT_DISCONNECT:
            says = f"The client left{after}"
        case Cause.ABORTED:
            says = f"{who} dropped the answer{after}"
        case Cause.ERROR_EVENT:
            says = f"{who} answered with an error{after}"
        case Cause.CANCEL_IGNORED:
            says = f"{who} went on when the client had left{after}"
        case Cause.IDLE_TIMER:
            says = f"{'the client' if who == CLIENT else who} ended the answer{after}"
        case Cause.TIMED_OUT:
            says = f"{who} fell silent{after}"
        case _:
            says = f"{who} broke the answer off{after}"
    return f"{_upper(says)}{so_far}: {finding.detail}{_also(path, verdict)}."


def _also(path: Path, verdict: Verdict) -> str:
    named = verdict.findings[0]
    waits = [f for f in verdict.findings[1:] if f.decomposition is not None and f.cause is not Cause.HIDDEN_OUTPUT]
    if named.cause in {Cause.TIMED_OUT, Cause.IDLE_TIMER}:  # the silence of its own segment is told already
        waits = [f for f in waits if f.segment != named.segment]
    went_on = next((f for f in verdict.findings[1:] if f.cause is Cause.CANCEL_IGNORED), None)
    after = "" if went_on is None else f"; {blamed(path, went_on)} went on for {seconds(went_on.term_ns)} after that"
    if not waits:
        return after
    added = [
        f"{blamed(path, f)} {'had ' if named.decomposition is None else ''}added {seconds(f.term_ns)}" for f in waits
    ]
    more = f" and {len(waits) - ALSO_TOLD} more" if len(waits) > ALSO_TOLD else ""
    said = ", ".join(added[:ALSO_TOLD]) + more
    return f"{after}; before that, {said}" if named.decomposition is None else f"; {said} as well"


def _place(finding: Finding, events: int | None) -> str:
    """Where in the answer, counted in what had been delivered before."""
    if not events:
        return "before its first event"
    about = "" if finding.is_position_exact else "about "
    text = f" ({about}{finding.at_position:,} characters)" if finding.at_position else ""
    return f"after {events:,} event{'s' * (events != 1)}{text}"


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
