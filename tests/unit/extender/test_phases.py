"""Where the time of an answer goes is told part by part."""

from support.extender_calls import extender, pod


async def test_a_filter_and_a_prioritize_tell_their_parts_in_order() -> None:
    async with extender() as client:
        client.shell.put_node()
        body = {"Pod": pod(), "NodeNames": ["node-a"]}
        await client.ask("/filter", body)
        await client.ask("/prioritize", body)

    told = [(verb, phase) for verb, phase, _ in client.shell.phases]
    assert told == [
        *(("filter", phase) for phase in ("read", "wait", "fit", "write")),
        *(("prioritize", phase) for phase in ("read", "score", "write")),
    ]
    assert all(seconds >= 0 for _, _, seconds in client.shell.phases)


async def test_a_refusal_that_waits_for_the_watch_tells_the_wait() -> None:
    async with extender() as client:
        client.shell.put_node(register="[]")
        body = {"Pod": pod(), "NodeNames": ["node-a"]}
        await client.ask("/filter", body)
        client.shell.phases.clear()
        await client.ask("/filter", body)

    waits = [seconds for _, phase, seconds in client.shell.phases if phase == "wait"]
    # wake.catchUpS is 0.05.
    assert max(waits) >= 0.045
