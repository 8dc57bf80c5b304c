"""Follow the links of pages, as somebody without scripts would."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urljoin

from tests.web.conftest import Answer, Page

MOST = 500
PAGES = (
    "/",
    "/clusters",
    "/workloads",
    "/matrix",
    "/groups",
    "/spreads",
    "/reservations",
    "/policies",
    "/whatif",
)


class Links(HTMLParser):
    """The addresses of links, style sheets, scripts and icons."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.found.append(value)


def crawl(page: Page, *, begin: tuple[str, ...] = PAGES) -> dict[str, Answer]:
    """Every answer by its address, in the order in which it was found; at most MOST."""
    found: dict[str, Answer] = {}
    waiting = list(begin)
    while waiting and len(found) < MOST:
        path = waiting.pop(0)
        if path in found:
            continue
        answer = found[path] = page.ask(path, Accept="text/html")
        if "text/html" in answer.headers.get("content-type", ""):
            base = f"{page.origin}{path}"
            every = [urljoin(base, each) for each in Links(answer.text).found]
            assert all(each.startswith(page.origin) for each in every), (path, every)
            waiting += [each.removeprefix(page.origin).partition("#")[0] for each in every]
    return found
