#!/usr/bin/env python3
"""A client of nothing but Python's own library against the program: what the openai package and lm-evaluation-harness ask
(clients/run.py, which needs packages), without them. Usage: plain_client.py PROGRAM."""
import http.client
import json
import os
import pathlib
import resource
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from running_server import Server, cancelled  # noqa: E402
from run import TEMPLATE  # noqa: E402

ASK = [{"role": "user", "content": "The pass key is 48213. What is the pass key?"}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"days": {"type": "integer", "enum": [1, 2]}}, "required": ["days"]}}}
MUST_CALL = {"messages": ASK, "max_tokens": 300, "tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}


class Client:
    def __init__(self, url):
        self.url = url
        self.address = urllib.parse.urlsplit(url).netloc

    def open(self, path, body):
        """The connection and the answer, whose body is still to be read."""
        connection = http.client.HTTPConnection(self.address, timeout=120)
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def ask(self, path, body=None, status=200):
        connection, answer = self.open(path, body)
        text = answer.read()
        connection.close()
        assert answer.status == status, (path, answer.status, text[:300])
        return json.loads(text)

    def chat(self, **body):
        return self.ask("/v1/chat/completions", {"messages": ASK, "max_tokens": 12, **body})["choices"][0]

    def events(self, path, body):
        connection, answer = self.open(path, {**body, "stream": True})
        assert answer.getheader("Content-Type") == "text/event-stream"
        for line in answer:
            if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                yield json.loads(line[6:])
        connection.close()


def streaming(client):
    whole = client.chat()["message"]["content"]
    usage, pieces = None, []
    for event in client.events("/v1/chat/completions", {"messages": ASK, "max_tokens": 12,
                                                        "stream_options": {"include_usage": True}}):
        usage = event.get("usage") or usage
        pieces += [choice["delta"].get("content") or "" for choice in event["choices"]]
    assert "".join(pieces) == whole and len(pieces) > 3, (pieces, whole)
    assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"], usage
    said = "".join(event["delta"].get("text", "") for event in client.events("/v1/messages", {
        "messages": ASK, "max_tokens": 12}) if event["type"] == "content_block_delta")
    assert said == whole, (said, whole)
    said = "".join(event["delta"] for event in client.events("/v1/responses", {
        "input": ASK, "max_output_tokens": 12}) if event["type"] == "response.output_text.delta")
    assert said == whole, (said, whole)


def tools(client):
    choice = client.chat(**MUST_CALL)
    call = choice["message"]["tool_calls"][0]
    assert choice["finish_reason"] == "tool_calls" and call["function"]["name"] == "weather", choice
    assert json.loads(call["function"]["arguments"])["days"] in (1, 2), call
    back = ASK + [choice["message"], {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}]
    assert client.chat(messages=back, max_tokens=4, tools=[TOOL], tool_choice="auto")["message"]["content"]
    deltas = [event["choices"][0]["delta"] for event in client.events("/v1/chat/completions", MUST_CALL)]
    streamed = [delta["tool_calls"][0]["function"] for delta in deltas if "tool_calls" in delta]
    assert streamed == [call["function"]], (streamed, call)


def schema(client):
    five = {"type": "object", "properties": {"key": {"type": "string", "pattern": "^[0-9]{5}$"}}, "required": ["key"]}
    shape = {"type": "json_schema", "json_schema": {"name": "key", "schema": five}}
    key = json.loads(client.chat(max_tokens=200, response_format=shape)["message"]["content"])["key"]
    assert len(key) == 5 and key.isdigit(), key
    answer = client.ask("/v1/responses", {"input": ASK, "max_output_tokens": 200,
                                          "text": {"format": {"type": "json_schema", "name": "key", "schema": five}}})
    assert json.loads(answer["output"][0]["content"][0]["text"]).keys() == {"key"}, answer


def cancellation(client):
    """A client that leaves while its prompt is read ends its request and frees its slot, and its neighbour's answer stays
    the same."""
    alone, beside, before = client.chat(), [], cancelled(client.url)
    connection, answer = client.open("/v1/completions", {"prompt": "a " * 40000, "max_tokens": 400, "stream": True,
                                                         "return_progress": True})
    assert answer.readline().startswith(b"data: ")
    neighbour = threading.Thread(target=lambda: beside.append(client.chat()))
    neighbour.start()
    answer.close()
    connection.close()
    neighbour.join()
    end = time.time() + 60
    while any(slot["is_processing"] for slot in client.ask("/slots")):
        assert time.time() < end, "the slot is still busy a minute after its client has gone"
        time.sleep(0.02)
    assert beside == [alone], (beside, alone)
    assert cancelled(client.url) == before + 1, "it was answered to the end"


def scores(client):
    """The echoed prompt's log-probabilities are those of its tokens asked for one by one."""
    vocabulary = client.ask("/v1/models")["data"][0]["meta"]["n_vocab"]
    tokens = client.ask("/tokenize", {"content": "The pass key is 48213."})["tokens"]
    echoed = client.ask("/v1/completions", {"prompt": tokens, "echo": True, "logprobs": 1, "max_tokens": 1})
    found = echoed["choices"][0]["logprobs"]["token_logprobs"]
    for at in range(1, len(tokens)):
        answer = client.ask("/completion", {"prompt": tokens[:at], "n_predict": 1, "n_probs": vocabulary})
        top = {one["id"]: one["logprob"] for one in answer["completion_probabilities"][0]["top_logprobs"]}
        assert abs(top[tokens[at]] - found[at]) < 1e-3, (at, top[tokens[at]], found[at])


def errors(client):
    for path, body, field in [("/v1/chat/completions", {"messages": ASK, "temperature": "warm"}, "temperature"),
                              ("/v1/completions", {"prompt": 5.5}, "prompt"),
                              ("/v1/messages", {"messages": ASK}, "max_tokens"),
                              ("/v1/responses", {"input": "a", "text": {"format": {"type": "xml"}}}, "text.format")]:
        error = client.ask(path, body, status=400)["error"]
        assert error["param"] == field and error["type"] == "invalid_request_error", error


def keys(program):
    """Keys of a file, and one of the environment: who has one is answered, who has none is not."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("first\nsecond\n")
        file.flush()
        for flags, good in ((["--api-key-file", file.name], ["first", "second"]), ([], ["from the environment"])):
            if not flags:
                os.environ["EI_ARG_API_KEY"] = good[0]
            server = Server(program, *flags)
            os.environ.pop("EI_ARG_API_KEY", None)
            try:
                address = urllib.parse.urlsplit(server.url).netloc
                for key in (*good, "third", ""):
                    connection = http.client.HTTPConnection(address, timeout=120)
                    connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"} if key else {})
                    status = connection.getresponse().status
                    connection.close()
                    assert status == (200 if key in good else 401), (flags, key, status)
            finally:
                server.close()


def crowd(program):
    """The program takes all descriptors that it may have, not only those that a shell gives it at first."""
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
    try:
        server = Server(program)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
    open_ones = []
    try:
        for _ in range(min(200, few - 50)):
            connection, answer = Client(server.url).open("/health", None)
            assert answer.status == 200 and answer.read()
            open_ones.append(connection)
        assert len(open_ones) > 64, few
    finally:
        for connection in open_ones:
            connection.close()
        server.close()


def stopping(program):
    """SIGTERM while a stream runs: nobody new is let in, the stream ends whole, and the program with 0."""
    server = Server(program, "--drain-seconds", "600")  # however slow the machine is
    try:
        client = Client(server.url)
        body = {"prompt": "The old woman walked", "n_predict": 3000, "ignore_eos": True, "stream": True}
        whole = client.ask("/completion", {**body, "stream": False, "n_predict": 40})["content"]
        connection, answer = client.open("/completion", body)
        pieces = [json.loads(answer.readline()[6:])]
        server.process.terminate()
        while client.open("/health", None)[1].status != 503:
            time.sleep(0.01)
        for line in answer:
            if line.startswith(b"data: {"):
                pieces.append(json.loads(line[6:]))
        connection.close()
        assert pieces[-1]["stop"] and pieces[-1]["tokens_predicted"] == 3000, pieces[-1]
        assert "".join(piece["content"] for piece in pieces).startswith(whole), whole
        assert server.process.wait(timeout=120) == 0, server.process.returncode
    finally:
        server.close()


def main():
    for alone in (keys, crowd, stopping):
        alone(sys.argv[1])
        print(alone.__name__, "ok")
    server = Server(sys.argv[1], "--chat-template", TEMPLATE, "--metrics")
    try:
        for check in (streaming, tools, schema, cancellation, scores, errors):
            check(Client(server.url))
            print(check.__name__, "ok")
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
