"""docs/doctor.md lists every finding there is."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("src/vtrr_queue/doctor.py", "src/vtrr_queue/celery/doctor.py")


def test_the_page_lists_every_finding_and_no_other():
    text = "".join((ROOT / path).read_text() for path in SOURCES)
    codes = set(re.findall(r'Finding\(\s*"([a-z-]+)"', text))
    page = (ROOT / "docs" / "doctor.md").read_text()
    listed = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert len(codes) > 15
    assert sorted(listed) == sorted(codes)
