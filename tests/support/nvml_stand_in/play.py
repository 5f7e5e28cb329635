"""The NVML back end against the stand-in library, as a process: a line of JSON for each thing told.

Lines read: ``tick`` is answered at once, ``close`` ends the back end.
"""

import asyncio
import dataclasses
import json
import sys
import threading
from pathlib import Path

import structlog

from vgpu_operator.model import errors
from vgpu_operator.node_agent import enforcement, nvml_cards
from vgpu_operator.node_agent.backends import nvml


def tell(**news):
    # In one piece: the back end's thread logs to the same stream.
    sys.stdout.write(json.dumps(news) + "\n")
    sys.stdout.flush()


def shown(cards):
    return [{k: getattr(card, k) for k in FIELDS} for card in cards]


FIELDS = ("id", "index", "type", "slots", "memory_mib", "cores_percent", "numa", "mode", "healthy")


async def follow(backend):
    try:
        tell(cards=shown(await backend.cards()))
    except errors.VgpuError as fault:
        tell(error=str(fault))
    async for cards in backend.changes():
        tell(cards=shown(cards))


async def main():
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            lambda _logger, _method, entry: json.dumps({"log": entry}),
        ],
        logger_factory=structlog.WriteLoggerFactory(sys.stdout),
    )
    options = dataclasses.replace(nvml_cards.Options(look_every_s=0.05), **json.loads(sys.argv[1]))
    backend = nvml.NvmlBackend(options, enforced=enforcement.Enforcement(Path("/nowhere")))
    following = asyncio.create_task(follow(backend))
    while (await asyncio.to_thread(sys.stdin.readline)).strip() == "tick":
        tell(tick=True)
    following.cancel()
    await backend.close()
    tell(left=[thread.name for thread in threading.enumerate() if thread.name == "nvml"])


if __name__ == "__main__":
    asyncio.run(main())
