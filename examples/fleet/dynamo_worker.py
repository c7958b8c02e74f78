#!/usr/bin/env python3
"""A worker of NVIDIA Dynamo that hands prompts to a running `entropyinfer serve --kv-events ADDRESS`, and its events to
Dynamo's router. Usage: dynamo_worker.py URL ADDRESS. Discovery by files (DYN_FILE_KV names the folder): no etcd, no NATS."""
import asyncio
import json
import sys
import urllib.request

from dynamo.llm import KvEventPublisher, ModelInput, ModelRuntimeConfig, ModelType, WorkerType, register_model
from dynamo.runtime import DistributedRuntime

ENDPOINT = "entropyinfer.worker.generate"
BLOCK = 16  # tokens, as the server counts them


def answer(url, request):
    asked = request.get("stop_conditions") or {}
    sampled = request.get("sampling_options") or {}
    body = {"prompt": request["token_ids"], "n_predict": asked.get("max_tokens") or -1, "return_tokens": True,
            "ignore_eos": bool(asked.get("ignore_eos"))}
    body.update({name: sampled[name] for name in ("temperature", "top_p", "top_k", "seed") if sampled.get(name) is not None})
    with urllib.request.urlopen(url + "/completion", json.dumps(body).encode()) as reply:
        return json.load(reply)


async def main():
    url, events = sys.argv[1:]
    runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp", event_plane="zmq")
    endpoint = runtime.endpoint(ENDPOINT)

    async def generate(request, context):
        done = await asyncio.to_thread(answer, url, request)
        yield {"token_ids": done["tokens"], "finish_reason": "length" if done["stop_type"] == "limit" else "stop",
               "extra_args": {"cached": done["timings"]["cache_n"], "worker": url}}

    publisher = KvEventPublisher(endpoint, kv_block_size=BLOCK, zmq_endpoint=events, enable_local_indexer=True)
    known = ModelRuntimeConfig()
    known.kv_event_publishing_enabled = True
    known.enable_local_indexer = True  # a router that comes later asks for what it missed
    await register_model(ModelInput.Tokens, ModelType.Completions, endpoint, "entropyinfer", "entropyinfer",
                         worker_type=WorkerType.Aggregated, kv_cache_block_size=BLOCK, runtime_config=known,
                         skip_model_assets=True)
    print("worker of", url, flush=True)
    await endpoint.serve_endpoint(generate)
    publisher.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
