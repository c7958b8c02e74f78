"""The openai package: chat, streaming, tools, JSON schema, cancellation, errors."""
import json
import time
import urllib.request

import openai

from running_server import cancelled

ASK = [{"role": "user", "content": "The pass key is 48213. What is the pass key?"}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"days": {"type": "integer", "enum": [1, 2]}}, "required": ["days"]}}}


def chat(client):
    answer = client.chat.completions.create(model="any", messages=ASK, max_tokens=12)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    return answer.choices[0].message.content


def streaming(client, whole):
    pieces, usage = [], None
    for chunk in client.chat.completions.create(model="any", messages=ASK, max_tokens=12, stream=True,
                                                stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        pieces += [choice.delta.content or "" for choice in chunk.choices]
    assert "".join(pieces) == whole, (pieces, whole)
    assert usage.completion_tokens > 0


def tools(client):
    answer = client.chat.completions.create(model="any", messages=ASK, max_tokens=300, tools=[TOOL], tool_choice="required",
                                            parallel_tool_calls=False)
    call = answer.choices[0].message.tool_calls[0]
    assert answer.choices[0].finish_reason == "tool_calls"
    assert call.function.name == "weather" and json.loads(call.function.arguments)["days"] in (1, 2), call
    back = ASK + [answer.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    assert client.chat.completions.create(model="any", messages=back, max_tokens=4, tools=[TOOL], tool_choice="none").choices
    with client.chat.completions.stream(model="any", messages=ASK, max_tokens=300, tools=[TOOL], tool_choice="required",
                                        parallel_tool_calls=False) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.tool_calls[0].function.name == "weather"


def schema(client):
    answer = client.chat.completions.create(model="any", messages=ASK, max_tokens=200, response_format={
        "type": "json_schema", "json_schema": {"name": "key", "schema": {
            "type": "object", "properties": {"key": {"type": "string", "pattern": "^[0-9]{5}$"}}, "required": ["key"]}}})
    key = json.loads(answer.choices[0].message.content)["key"]
    assert len(key) == 5 and key.isdigit(), key


def cancellation(client, url):
    before = cancelled(url)
    stream = client.completions.create(model="any", prompt="a " * 20000, max_tokens=400, stream=True)
    stream.close()
    end = time.time() + 60
    while any(slot["is_processing"] for slot in json.load(urllib.request.urlopen(url + "/slots"))):
        assert time.time() < end, "the slot is still busy a minute after its client has gone"
        time.sleep(0.02)
    assert cancelled(url) == before + 1, "it was answered to the end"


def errors(client):
    try:
        client.chat.completions.create(model="any", messages=ASK, temperature="warm")
    except openai.BadRequestError as error:
        assert error.body["param"] == "temperature", error.body
        return
    raise AssertionError("a wrong field was taken")


def responses(client):
    answer = client.responses.create(model="any", input="The key is 7. The key is", max_output_tokens=6)
    assert answer.output_text, answer
    cut = answer.usage.output_tokens == 6
    assert answer.status == ("incomplete" if cut else "completed"), answer
    shaped = client.responses.create(model="any", input="The key is", max_output_tokens=60, text={"format": {
        "type": "json_schema", "name": "key", "schema": {"const": "42"}}})
    assert json.loads(shaped.output_text) == "42", shaped


def run(url):
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    assert client.models.list().data[0].id
    whole = chat(client)
    assert whole
    streaming(client, whole)
    tools(client)
    schema(client)
    cancellation(client, url)
    errors(client)
    responses(client)
    print("openai", openai.__version__, "ok")
