"""What a scraper of the controller reads, and under which name it is handed over."""

from __future__ import annotations

import asyncio
import urllib.request
from typing import Any, cast

from prometheus_client.parser import text_string_to_metric_families

from controller.http.server import Flags, install
from machinery import metrics
from machinery.http_server import HttpServer


async def nobody(_key: tuple[str, str]) -> dict[str, Any] | None:
    raise AssertionError("it is not asked")


async def test_metrics_come_under_the_content_type_of_their_format() -> None:
    server = HttpServer()
    # A standby, which nobody needs to ask: metrics are for every one.
    install(
        server,
        cache=cast("Any", None),
        leading=lambda: False,
        unready=lambda: "not yet",
        diagnosis=nobody,
        flags=Flags(),
        guard=None,
    )
    port = await server.start("127.0.0.1", 0)

    def scrape() -> tuple[str, str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    try:
        content_type, text = await asyncio.to_thread(scrape)
    finally:
        await server.stop()
    assert content_type == metrics.CONTENT_TYPE
    assert "python_info" in {family.name for family in text_string_to_metric_families(text)}
