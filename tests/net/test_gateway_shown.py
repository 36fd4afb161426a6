"""What the gateway shows: metrics, status, and the OpenAPI document; all agree with what there is."""

import asyncio
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from gateways import serving

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "gateway.md"


def test_metrics_agree_with_what_happened():
    async def main():
        async with serving(2) as door, door.cluster[1].subscribe("room\n") as room:
            for number in range(3):
                await door.ask("POST", "/topics/room%0A?acknowledged=true", data=b"%d" % number)
            receipt = await room.publish(b"back")
            await receipt.acknowledged()
            await door.ask("GET", "/nowhere")
            return await door.metrics(), (await door.ask("GET", "/status"))[1]

    values, status = asyncio.run(main())

    assert values["vcubeps_publications_total", "room\n"] == 3
    assert values["vcubeps_deliveries_total", "room\n"] == 4
    assert values["vcubeps_receptions_total", "room\n"] == 1
    assert values["vcubeps_topic_members", "room\n"] == 2
    assert values["vcubeps_topic_unacknowledged", "room\n"] == 0
    assert values["vcubeps_latency_seconds_count", ""] == 1
    assert values["vcubeps_latency_seconds_bucket", "+Inf"] == 1
    assert values["vcubeps_causal_wait_seconds_count", ""] == 1
    assert values["vcubeps_batch_publications_sum", ""] == 4
    assert values["vcubeps_link_connected", "1"] == 1
    assert values["vcubeps_gateway_refusals_total", "no-such-door"] == 1
    assert values["vcubeps_gateway_refusals_total", "topic"] == 0
    assert values["vcubeps_up", ""] == 1
    (topic,) = status["topics"]
    assert (topic["topic"], topic["stage"], topic["members"]) == ("room\n", "in", [0, 1])
    assert (topic["publications"], topic["receptions"], topic["deliveries"]) == (3, 1, 4)
    assert status["counts"]["gateway_refusals"] == {"no-such-door": 1}
    assert status["latency_us"]["count"] == 1


def test_histogram_buckets_ascend_to_the_count():
    async def main():
        async with serving(1) as door, door.cluster[0].subscribe("room", reads=False) as room:
            for value in (0, 9, 10**6, 2**40):
                door.gateway.shared.shell.measures.latency_us.add(value)
            for _ in range(5):
                await room.publish(b"")
            return await door.metrics()

    values = asyncio.run(main())
    buckets = [count for (name, _), count in values.items() if name == "vcubeps_latency_seconds_bucket"]

    assert buckets == sorted(buckets)
    assert values["vcubeps_latency_seconds_bucket", "8e-06"] == 1
    assert values["vcubeps_latency_seconds_bucket", "1.6e-05"] == 2
    assert values["vcubeps_latency_seconds_bucket", "134.217728"] == 3
    assert values["vcubeps_latency_seconds_bucket", "+Inf"] == 4


def test_the_page_lists_every_metric_and_no_other():
    async def main():
        async with serving(1) as door, door.cluster[0].subscribe("room", reads=False):
            return await door.text("/metrics")

    exposed = {
        family.name + ("_total" if family.type == "counter" else ""): family.type
        for family in text_string_to_metric_families(asyncio.run(main()))
    }
    table = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    documented = {
        cells[1].strip(" `"): cells[2].strip() for cells in table if cells[2].strip() in set(exposed.values())
    }

    assert documented == exposed


def test_openmetrics_is_served_to_those_who_ask_for_it():
    async def main():
        async with serving(1) as door:
            return await door.text("/metrics", Accept="application/openmetrics-text; version=1.0.0")

    assert asyncio.run(main()).endswith("# EOF\n")


def test_the_openapi_document_has_every_route_and_its_references_lead_somewhere():
    async def main():
        async with serving(1) as door:
            routes = {
                (route.method, route.resource.canonical)
                for route in door.gateway.application.router.routes()
                if route.method != "HEAD"
            }
            return routes, (await door.ask("GET", "/openapi.json"))[1], (await door.ask("GET", "/"))[1]

    routes, document, index = asyncio.run(main())
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}

    assert document["openapi"] == "3.1.0"
    assert described == routes
    assert set(index["doors"]) == {f"{method} {path}" for method, path in routes}
    for operations in document["paths"].values():
        for operation in operations.values():
            assert operation["summary"]
            assert all(response["description"] for response in operation["responses"].values())
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"], reference
    events = document["components"]["schemas"]["Event"]["anyOf"]
    assert {each["$ref"].rpartition("/")[2] for each in events} >= {"MessageEvent", "ErrorEvent"}


def references(value: object) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for each in value.values() for found in references(each)]
    return [found for each in value for found in references(each)] if isinstance(value, list) else []
