"""lm-evaluation-harness: its log-likelihoods over /v1/completions are the server's own, with tokens that it is given and
with those that it asks the server for (/tokenizer_info, /tokenize)."""
import json
import urllib.request

from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI

PAIRS = [("The pass key is 48213. What is the pass key?", " The pass key is 48213."),
         ("The captain went to the", " river"),
         ("It was a cold winter in the café by the", " harbour of stone.")]


class Tokens:
    """The server's tokenizer in the shape that the harness expects of one."""
    eos_token_id, bos_token_id, eos_token, bos_token, pad_token = 0, 0, "", "", ""

    def __init__(self, url):
        self.url = url

    def encode(self, text, **_):
        return post(self.url + "/tokenize", {"content": text, "parse_special": False})["tokens"]

    def decode(self, tokens, **_):
        return post(self.url + "/detokenize", {"tokens": tokens})["content"]


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))


def expected(url, tokens, context, continuation):
    """Token by token over /completion: the probability of each under what is before it."""
    vocab = json.load(urllib.request.urlopen(url + "/v1/models"))["data"][0]["meta"]["n_vocab"]
    prompt, answer = tokens.encode(context), tokens.encode(context + continuation)
    total = 0.0
    for at in range(len(prompt), len(answer)):
        found = post(url + "/completion", {"prompt": answer[:at], "n_predict": 1, "n_probs": vocab, "temperature": 0})
        top = {one["id"]: one["logprob"] for one in found["completion_probabilities"][0]["top_logprobs"]}
        total += top[answer[at]]
    return total


def given_tokens(url, tokens):
    model = LocalCompletionsAPI(base_url=url + "/v1/completions", model="needle", tokenizer_backend=None,
                                tokenized_requests=False, num_concurrent=1, batch_size=1)
    model.tokenizer_backend, model.tokenizer, model.tokenized_requests = "huggingface", tokens, True
    model.tok_encode = lambda text, **_: tokens.encode(text)
    requests = [(pair, tokens.encode(pair[0]), tokens.encode(pair[0] + pair[1])[len(tokens.encode(pair[0])):])
                for pair in PAIRS]
    return model._loglikelihood_tokens(requests, disable_tqdm=True)


def asked_for_tokens(url):
    """Nothing is told but where the server is: the harness finds out that it has a tokenizer."""
    model = LocalCompletionsAPI(base_url=url + "/v1/completions", model="needle", num_concurrent=1, batch_size=1)
    assert model.tokenizer_backend == "remote", model.tokenizer_backend
    text = "The café by the river."
    assert model.tokenizer.decode(model.tokenizer.encode(text)) == text
    return model.loglikelihood([Instance("loglikelihood", {}, pair, index) for index, pair in enumerate(PAIRS)],
                               disable_tqdm=True)


def run(url):
    tokens = Tokens(url)
    own = [expected(url, tokens, *pair) for pair in PAIRS]
    for found in (given_tokens(url, tokens), asked_for_tokens(url)):
        for (score, _), mine, pair in zip(found, own, PAIRS):
            assert abs(score - mine) < 1e-3 * max(1.0, abs(mine)), (pair, score, mine)
    print("lm-eval: log-likelihoods", [round(score, 4) for score in own], "are the engine's own: ok")
