"""Two workers behind smg: prompts that begin alike go to one worker, and when it is killed every request that had no
answer yet gets one from the other. Usage: smg_fleet.py PROGRAM, where smg is in the PATH."""
import concurrent.futures
import os
import signal
import subprocess
import sys
import time

from fleet import Example, fetch, free_ports, until

WORDS = "river stone winter letter garden silver morning captain".split()
AT_ONCE = 6


def text_of(number, words=400):
    return " ".join(WORDS[(i * (number + 3) + i // 7) % len(WORDS)] + str(number) for i in range(words))


def ask(url, model, text, question, tokens=24, **more):
    body = {"model": model, "prompt": f"{text} {question}", "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    body.update(more)
    return fetch(url + "/v1/completions", body)


def healthy(url):
    return sum(worker["is_healthy"] for worker in fetch(url + "/workers")["workers"])


def running(url):
    """What smg has read of the workers' gauges."""
    loads = [load for worker in fetch(url + "/workers")["workers"] for load in (worker.get("engine_load") or {}).get("loads", [])]
    return sum(load["num_running_reqs"] for load in loads)


def reads_gauges(fleet, model):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask, fleet.workers[0][1], model, text, "Who?", 100000, timeout=15) for text in "ab"]
        until(lambda: running(fleet.url) == 2)
        for answer in asked:
            answer.result()
    print("the router sees how many requests run")


def finds_prefixes(fleet, model):
    for number in range(3):
        text = text_of(number)
        cached = []
        for question in ("Who?", "Where?", "When?", "Why?"):
            usage = ask(fleet.url, model, text, question)["usage"]
            cached.append(usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"])
        assert cached[0] < 0.1 and min(cached[1:]) > 0.9, cached
    print("prompts that begin alike go to the worker that has read their beginning")


def survives_a_kill(fleet, model):
    texts = [text_of(number, 200) for number in range(10, 14)]
    expected = {text: ask(fleet.workers[0][1], model, text, "Who?")["choices"][0]["text"] for text in texts}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [(texts[i % 4], pool.submit(ask, fleet.url, model, texts[i % 4], "Who?")) for i in range(120)]
        until(lambda: sum(answer.done() for _, answer in asked) >= 20)
        # Not at the end of one: some answer is being made by the worker that goes.
        until(lambda: any(slot["is_processing"] for slot in fetch(fleet.workers[1][1] + "/slots")))
        os.kill(fleet.workers[1][0], signal.SIGKILL)
        left = sum(not answer.done() for _, answer in asked)
        for text, answer in asked:
            assert answer.result()["choices"][0]["text"] == expected[text]
    assert left >= AT_ONCE, left
    print(f"{len(asked)} of {len(asked)} requests answered, {left} of them behind a SIGKILL")


def comes_back(fleet, model, program, flags):
    until(lambda: healthy(fleet.url) == 1)
    port = fleet.workers[1][1].rsplit(":", 1)[1]
    worker = subprocess.Popen([program, "serve", "--port", port, *flags], stderr=subprocess.DEVNULL)
    try:
        until(lambda: healthy(fleet.url) == 2)

        def has_work():
            ask(fleet.url, model, text_of(int(time.monotonic() * 10) % 1000, 50), "Who?", 2)
            metrics = subprocess.run(["curl", "-s", fleet.workers[1][1] + "/metrics"], capture_output=True, text=True).stdout
            return "entropyinfer:requests_total 0\n" not in metrics
        until(has_work)
    finally:
        worker.terminate()
        worker.wait()
    print("a worker that comes back gets work again")


def main():
    program = sys.argv[1]
    flags = ["--metrics", "-np", "4"]
    fleet = Example("smg.sh", program, *flags[1:], env={**os.environ, "FLEET_PORT": str(free_ports(10))})
    try:
        until(lambda: healthy(fleet.url) == 2)
        model = fetch(fleet.url + "/v1/models")["data"][0]["id"]
        reads_gauges(fleet, model)
        finds_prefixes(fleet, model)
        survives_a_kill(fleet, model)
        comes_back(fleet, model, program, flags)
    finally:
        fleet.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
