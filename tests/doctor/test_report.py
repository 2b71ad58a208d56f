"""What a report says, what has changed since the one before, and the page that is made of it."""

from html.parser import HTMLParser

from holdfast.client.groups import TopicPartition
from holdfast.doctor.examine import Examination, NotExamined
from holdfast.doctor.findings import Finding
from holdfast.doctor.page import report_page
from holdfast.doctor.report import Report, by_reason, changes

PLACE = TopicPartition("orders", 0)
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta"}


def finding(key: bytes = b"k", *, what: str = "it differs") -> Finding:
    return Finding(
        place=PLACE,
        replica=3,
        variant="tombstone",
        key=key,
        producer_id=None,
        offsets=(0,),
        others=(1, 2),
        what=what,
        advice="rebuild it",
    )


def missed(replica: int | None = 3, why: str = "it is 3 offsets behind", partition: int = 0) -> NotExamined:
    return NotExamined(place=TopicPartition("orders", partition), replica=replica, why=why)


def report(*findings: Finding, not_examined: tuple[NotExamined, ...] = ()) -> Report:
    examination = Examination(
        place=PLACE, replicas=[1, 2, 3], findings=list(findings), not_examined=list(not_examined)
    )
    return Report(examined=[examination])


def test_codes() -> None:
    """What differs comes before what could not be seen; a look that came to nothing is not clean."""
    assert [
        each.code
        for each in (
            report(),
            report(finding()),
            report(not_examined=(missed(),)),
            report(finding(), not_examined=(missed(),)),
            Report(failure="nobody answers"),
        )
    ] == [0, 1, 3, 1, 3]


def test_changes() -> None:
    """Each thing once: when it comes, and when it goes; how far a replica is behind does not matter."""
    assert not changes(report(finding()), report(finding(what="said otherwise")))
    assert [each.key for each in changes(report(finding()), report(finding(), finding(b"l"))).found] == [b"l"]
    assert [each.key for each in changes(report(finding()), report()).healed] == [b"k"]
    behind = report(not_examined=(missed(),))
    assert changes(report(), behind).missed == [missed()]
    assert not changes(behind, report(not_examined=(missed(why="it is 5 offsets behind"),)))
    assert changes(behind, report()).seen_again == [missed()]


def test_what_was_not_seen_has_not_healed() -> None:
    """Neither when its partition could not be examined, nor when nothing could; the latter is told once."""
    failed = Report(failure="nobody answers")
    assert not changes(report(finding()), report(not_examined=(missed(),))).healed
    found = changes(report(finding()), failed)
    assert (found.healed, found.failure) == ([], "nobody answers")
    assert not changes(failed, failed)


def test_one_line_for_what_one_right_keeps_from_us() -> None:
    """A topic of many partitions; what concerns single replicas is told one by one."""
    why = "the right Read on topic 'orders' is missing"
    refused = [missed(None, why, number) for number in range(12)]
    assert list(by_reason([*refused, missed(2), missed(3)])) == [
        ("orders (12 partitions)", why),
        ("orders:0  replica 2", "it is 3 offsets behind"),
        ("orders:0  replica 3", "it is 3 offsets behind"),
    ]


class Outline(HTMLParser):
    """Holds a page against itself: every tag is closed, and nothing comes from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "link", "img", "iframe"}
        assert not {"src", "href", "style"} & {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_is_sound_whatever_is_in_the_keys() -> None:
    """What people wrote into topics is shown, never obeyed."""
    nasty = '</code><script>alert("x")</script>'
    told = report(finding(what=f"key {nasty} reads 1"), not_examined=(missed(None, nasty),))
    page = report_page(told, about=nasty, when="2026-01-31 12:00:00+00:00")
    outline = Outline()
    outline.feed(page)
    outline.close()
    assert outline.open == []
    text = " ".join(outline.text)
    assert f"key {nasty} reads 1" in text
    assert "1 difference found" in text
    assert "url(" not in page
    assert "All replicas show the same" in report_page(report(), about="c", when="now")
    failed = report_page(Report(failure="nobody <answers>"), about="c", when="now")
    assert "nobody &lt;answers&gt;" in failed
    assert "Not everything could be examined" in failed
