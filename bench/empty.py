"""An HTTP server that reads a question about nodes and answers what it always answers.

What it costs to ask it is what HTTP and Python's event loop cost: the floor of
the same exchange with the operator.
"""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import orjson
from aiohttp import web


@contextlib.asynccontextmanager
async def server(nodes: int) -> AsyncIterator[str]:
    """Run it in a process of its own; yield its URL."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.empty", "--nodes", str(nodes)),
        cwd=Path(__file__).parent.parent,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        if process.stdout is None:
            raise RuntimeError("the process has no output to read")
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def _serve(names: Sequence[str]) -> None:
    answers = {
        "/filter": orjson.dumps({"NodeNames": names}),
        "/prioritize": orjson.dumps([{"Host": name, "Score": 50} for name in names]),
    }

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=answers[request.path], content_type="application/json")

    app = web.Application(client_max_size=2**28)
    app.add_routes([web.post(path, answer) for path in answers])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, required=True)
    given = parser.parse_args()
    asyncio.run(_serve([f"node-{number:05d}" for number in range(given.nodes)]))


if __name__ == "__main__":
    main()
