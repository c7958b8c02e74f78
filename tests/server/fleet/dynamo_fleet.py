"""Two workers behind NVIDIA Dynamo's router: our KV events tell its indexer which worker holds a prefix, and a request
that begins with it goes there. Usage: dynamo_fleet.py PROGRAM, in a Python that has Dynamo."""
import asyncio
import os
import sys
import tempfile

from fleet import Example, fetch, free_ports, until

BLOCK = 16


def tokens_of(url, text):
    return fetch(url + "/tokenize", {"content": text})["tokens"]


async def eventually(what, seconds=60):
    for _ in range(seconds * 5):
        if (found := await what()) is not None:
            return found
        await asyncio.sleep(0.2)
    raise AssertionError("it did not come")


async def generate(router, tokens, count=4):
    pieces = await router.generate(tokens, "entropyinfer", stop_conditions={"max_tokens": count, "ignore_eos": True},
                                   sampling_options={"temperature": 0.0})
    made = []
    async for piece in pieces:
        made += piece["token_ids"]
    return made


async def check(fleet):
    from dynamo.llm import KvRouter, KvRouterConfig
    from dynamo.runtime import DistributedRuntime
    runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp", event_plane="zmq")
    router = KvRouter(runtime.endpoint("entropyinfer.worker.generate"), BLOCK, KvRouterConfig())
    urls = [url for _, url in fleet.workers]
    text = " ".join(f"river {i} stone" for i in range(150))
    tokens = tokens_of(urls[0], text)

    async def overlap(of, wanted):
        try:
            worker, _, blocks = await router.best_worker(of)
        except Exception:  # nobody has come yet
            return None
        return worker if blocks == wanted else None

    await eventually(lambda: overlap(tokens, 0))
    first = await generate(router, tokens)
    assert len(first) == 4, first
    await eventually(lambda: overlap(tokens, len(tokens) // BLOCK))
    print(f"the indexer found {len(tokens) // BLOCK} blocks of a prompt at the worker that had read it")

    held = [url for url in urls if any(slot["n_held"] >= len(tokens) for slot in fetch(url + "/slots"))]
    assert len(held) == 1, held
    asked = tokens + tokens_of(urls[0], " Who was it, and who was it not?" * 10)
    assert len(await generate(router, asked)) == 4
    grown = [url for url in urls if any(slot["n_held"] > len(tokens) + 4 for slot in fetch(url + "/slots"))]
    assert grown == held, (grown, held)
    print("a request that begins with it went to that worker")

    others = tokens_of(urls[0], " ".join(f"winter {i} letter" for i in range(1200)))
    timings = fetch(urls[1] + "/completion", {"prompt": others, "n_predict": 2, "method": "entropyinfer"})["timings"]
    assert timings["density"] < 1, timings
    await asyncio.sleep(1)
    assert await overlap(others, 0) is not None, "a text that was read sparsely is nobody's prefix"
    fetch(urls[1] + "/completion", {"prompt": others, "n_predict": 2})
    await eventually(lambda: overlap(others, len(others) // BLOCK))
    print("what was read sparsely is not announced, what was read wholly is")

    # The slot's last text goes; the first one is still held, without a slot.
    await eventually(lambda: overlap(asked, len(asked) // BLOCK))
    for slot in fetch(held[0] + "/slots"):
        fetch(f"{held[0]}/slots/{slot['id']}?action=erase", {"a": 1})
    await eventually(lambda: overlap(asked, len(tokens) // BLOCK))
    print("what was given up is forgotten")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(DYN_FILE_KV=folder, DYN_TCP_RPC_HOST="127.0.0.1", DYN_LOG="error",
                          FLEET_PORT=str(free_ports(10)))
        fleet = Example("dynamo.sh", sys.argv[1], env=os.environ.copy())
        try:
            for _, url in fleet.workers:
                until(lambda url=url: fetch(url + "/health"))
            asyncio.run(check(fleet))
        finally:
            fleet.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
