// What each path answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "engine/generate.h"
#include "server/test_server.h"
#include "support/embedded_engine.h"
#include "support/temp_folder.h"

namespace ei::server {
namespace {

using nlohmann::json;

std::string joined(const std::vector<json>& events, const char* member) {
  std::string text;
  for (const json& event : events) text += event.value(member, "");
  return text;
}

TEST(ServerAnswers, TellWhatItIs) {
  const TestServer server;
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/version").json()["version"], "1");
  const json models = server.get("/v1/models").json();
  ASSERT_EQ(models["data"].size(), 1u);
  EXPECT_EQ(models["data"][0]["id"], "needle");
  const json props = server.get("/props").json();
  EXPECT_EQ(props["total_slots"], 4);
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], embedded_engine().config().context);
}

TEST(ServerAnswers, TokenizeInBothShapesAndBack) {
  const TestServer server;
  const json llama = server.post("/tokenize", {{"content", "the pass key"}, {"with_pieces", true}}).json();
  ASSERT_FALSE(llama["tokens"].empty());
  std::string text;
  std::vector<int> ids;
  for (const json& token : llama["tokens"]) {
    text += token["piece"].get<std::string>();
    ids.push_back(token["id"]);
  }
  EXPECT_NE(text.find("the pass key"), std::string::npos);
  const json vllm = server.post("/tokenize", {{"prompt", "the pass key"}, {"add_special_tokens", false}}).json();
  EXPECT_EQ(vllm["tokens"].get<std::vector<int>>(), ids);
  EXPECT_EQ(vllm["count"], ids.size());
  // What lm-evaluation-harness asks for first, to make its tokens here.
  const text::Tokenizer& tokenizer = embedded_engine().tokenizer();
  const json about = server.get("/tokenizer_info").json();
  EXPECT_EQ(about["vocab_size"], tokenizer.vocab_size());
  EXPECT_EQ(about["eos_token"], tokenizer.piece(tokenizer.eos(), /*special=*/true));
  EXPECT_EQ(about["chat_template"], test_options().chat_template);
  EXPECT_GT(about["model_max_length"].get<int64_t>(), 0);
  const json back = server.post("/detokenize", {{"tokens", ids}}).json();
  EXPECT_NE(back["content"].get<std::string>().find("the pass key"), std::string::npos);
}

TEST(ServerAnswers, ACompletionIsWhatTheEngineGenerates) {
  const TestServer server;
  const std::string prompt = "The pass key is 48213. What is the pass key? The pass key is";
  const auto tokens = embedded_engine().tokenizer().tokenize(prompt, {.add_bos_eos = true, .parse_special = true});
  ASSERT_TRUE(tokens.ok());
  GenerateOptions options;
  options.max_tokens = 12;
  options.sampler.temp = 0;
  const auto session = open_session(embedded_engine(), {});
  const auto alone = generate(*session, *tokens, options, {});
  ASSERT_TRUE(alone.ok());

  const json whole =
      server.post("/completion", {{"prompt", prompt}, {"n_predict", 12}, {"return_tokens", true}}).json();
  EXPECT_EQ(whole["content"], alone->text);
  EXPECT_EQ(whole["tokens"].get<std::vector<int32_t>>(), alone->tokens);
  EXPECT_EQ(whole["timings"]["prompt_n"], tokens->size());
  EXPECT_EQ(whole["timings"]["density"], 1.0);
  EXPECT_GT(whole["timings"]["kv_bytes"], 0);

  const Answer stream = server.post("/completion", {{"prompt", *tokens}, {"n_predict", 12}, {"stream", true}});
  EXPECT_EQ(stream.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(joined(stream.events(), "content"), alone->text);
  EXPECT_EQ(stream.events().back()["stop"], true);
}

TEST(ServerAnswers, AChatStreamsItsRoleItsTextItsUsageAndItsEnd) {
  const TestServer server;
  json body = {{"messages", {{{"role", "user"}, {"content", "The key is 7. The key is"}}}}, {"max_tokens", 6}};
  const json whole = server.post("/v1/chat/completions", body).json();
  ASSERT_EQ(whole["choices"].size(), 1u) << whole;
  EXPECT_EQ(whole["object"], "chat.completion");
  EXPECT_EQ(whole["usage"]["completion_tokens"].get<int>() + whole["usage"]["prompt_tokens"].get<int>(),
            whole["usage"]["total_tokens"].get<int>());
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const Answer stream = server.post("/v1/chat/completions", body);
  EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n"));
  const std::vector<json> events = stream.events();
  EXPECT_EQ(events.front()["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
  EXPECT_TRUE(events.back()["choices"].empty());
  std::string text;
  for (const json& event : events)
    if (!event["choices"].empty() && event["choices"][0]["delta"].contains("content") &&
        event["choices"][0]["delta"]["content"].is_string())
      text += event["choices"][0]["delta"]["content"].get<std::string>();
  EXPECT_EQ(text, whole["choices"][0]["message"]["content"]);
}

TEST(ServerAnswers, SeveralChoicesReadTheirPromptOnce) {
  const TestServer server;
  const json body = {{"prompt", long_text(300)}, {"max_tokens", 4}, {"n", 3}, {"temperature", 1.5}, {"seed", 3}};
  const json answer = server.post("/v1/completions", body).json();
  ASSERT_EQ(answer["choices"].size(), 3u) << answer;
  std::set<std::string> texts;
  for (const json& choice : answer["choices"]) texts.insert(choice["text"].get<std::string>());
  EXPECT_GT(texts.size(), 1u);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 12);
}

TEST(ServerAnswers, SeveralCountEveryPromptOnceAndHaveTimingsOfTheirOwn) {
  const TestServer server;
  const json prompts = {"a b c", long_text(40)};
  json body = {{"max_tokens", 2}, {"ignore_eos", true}, {"cache_prompt", false}};
  std::vector<int> alone;
  for (const json& prompt : prompts) {
    body["prompt"] = prompt;
    alone.push_back(server.post("/v1/completions", body).json()["usage"]["prompt_tokens"]);
  }
  body["prompt"] = prompts;
  body["n"] = 2;
  const json answer = server.post("/v1/completions", body).json();
  EXPECT_EQ(answer["usage"]["prompt_tokens"], alone[0] + alone[1]) << answer;
  EXPECT_EQ(answer["usage"]["total_tokens"], alone[0] + alone[1] + 8);
  ASSERT_EQ(answer["choices"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const json& timings = answer["choices"][i]["timings"];
    EXPECT_EQ(timings["prompt_n"], alone[i / 2]) << i << timings;
    EXPECT_TRUE(timings.contains("density"));
  }
  EXPECT_EQ(answer["timings"], answer["choices"][0]["timings"]);

  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  body["messages"] = {{{"role", "user"}, {"content", "a"}}};
  EXPECT_EQ(server.post("/v1/completions", body).events().back()["usage"]["prompt_tokens"], alone[0] + alone[1]);
  for (const int n : {1, 2}) {
    body["n"] = n;
    int told = 0;
    for (const json& event : server.post("/v1/chat/completions", body).events())
      if (event.contains("timings") && !event["choices"].empty()) ++told;
    EXPECT_EQ(told, n == 1 ? 0 : n) << "one answer has them beside its usage";
  }
}

TEST(ServerAnswers, StopStringsGrammarsAndSchemasHold) {
  const TestServer server;
  const std::string prompt = "one two three four one two three four one two";
  const json free = server.post("/completion", {{"prompt", prompt}, {"n_predict", 16}}).json();
  const auto text = free["content"].get<std::string>();
  ASSERT_GT(text.size(), 8u);
  const std::string stop = text.substr(text.size() / 2, 3);
  const json stopped = server.post("/completion", {{"prompt", prompt}, {"n_predict", 16}, {"stop", {stop}}}).json();
  EXPECT_EQ(stopped["content"], text.substr(0, text.find(stop)));
  EXPECT_EQ(stopped["stop_type"], "word");
  EXPECT_EQ(stopped["stopping_word"], stop);
  const json five =
      server.post("/completion", {{"prompt", "x"}, {"n_predict", 9}, {"grammar", "root ::= \"a\"{5,5}"}}).json();
  EXPECT_EQ(five["content"], "aaaaa");
  const json schema = {
      {"messages", {{{"role", "user"}, {"content", "answer"}}}},
      {"max_tokens", 16},
      {"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", {{"const", "42"}}}}}}}};
  EXPECT_EQ(server.post("/v1/chat/completions", schema).json()["choices"][0]["message"]["content"], "\"42\"");
  const json format = {{"type", "json_schema"}, {"name", "answer"}, {"schema", {{"const", "42"}}}};
  const json response =
      server.post("/v1/responses", {{"input", "answer"}, {"max_output_tokens", 16}, {"text", {{"format", format}}}})
          .json();
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "\"42\"") << response;
  EXPECT_EQ(response["text"]["format"], format);
}

TEST(ServerAnswers, SamplersAreTheRequestsChoice) {
  const TestServer server;
  const json body = {
      {"prompt", "one two three one two three one"}, {"n_predict", 12}, {"seed", 3}, {"temperature", 5.0}};
  const auto with = [&](const json& more) {
    json changed = body;
    changed.update(more);
    return server.post("/completion", changed).json();
  };
  const json hot = with(json::object());
  EXPECT_EQ(with(json::object())["content"], hot["content"]);
  const json narrow = with({{"samplers", {"top_k", "temperature"}}, {"top_k", 1}});
  EXPECT_EQ(narrow["generation_settings"]["samplers"], (json{"top_k", "temperature"}));
  EXPECT_EQ(narrow["content"], with({{"temperature", 0}})["content"]) << "one candidate is the likeliest";
  EXPECT_NE(hot["content"], narrow["content"]);
  EXPECT_NE(with({{"mirostat", 2}, {"mirostat_tau", 0.1}})["content"], hot["content"]);
  EXPECT_EQ(with({{"min_p", 1}})["content"], narrow["content"]) << "as is one that no other comes near";
  const json kept = with({{"min_p", 1}, {"min_keep", 100}});
  EXPECT_EQ(kept["generation_settings"]["min_keep"], 100);
  EXPECT_NE(kept["content"], narrow["content"]);
  const json several = with({{"n_cmpl", 2}});  // llama.cpp's name of n
  ASSERT_EQ(several.size(), 2u) << several;
  EXPECT_EQ(several[0]["content"], hot["content"]);
}

TEST(ServerAnswers, LogProbabilitiesAreThoseOfTheLogits) {
  const TestServer server;
  const json answer = server.post("/completion", {{"prompt", "The key is"}, {"n_predict", 3}, {"n_probs", 5}}).json();
  const json& tokens = answer["completion_probabilities"];
  ASSERT_EQ(tokens.size(), 3u);
  for (const json& token : tokens) {
    ASSERT_EQ(token["top_logprobs"].size(), 5u);
    EXPECT_EQ(token["id"], token["top_logprobs"][0]["id"]);  // greedy
    EXPECT_LE(token["logprob"].get<double>(), 0.0);
  }
}

TEST(ServerAnswers, ProbabilitiesOfTheDrawAreThoseBehindTheSamplers) {
  const TestServer server;
  const json body = {{"prompt", "one two three one two three one"},
                     {"n_predict", 6},
                     {"ignore_eos", true},
                     {"seed", 3},
                     {"n_probs", 5},
                     {"temperature", 1.5},
                     {"top_k", 3},
                     {"top_p", 1.0},
                     {"min_p", 0.0},
                     {"post_sampling_probs", true}};
  const json answer = server.post("/completion", body).json();
  ASSERT_EQ(answer["completion_probabilities"].size(), 6u) << answer;
  for (const json& token : answer["completion_probabilities"]) {
    EXPECT_EQ(token["top_probs"].size(), 3u) << "more were not in the draw";
    double sum = 0;
    double own = 0;
    for (const json& one : token["top_probs"]) {
      sum += one["prob"].get<double>();
      if (one["id"] == token["id"]) own = one["prob"];
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_EQ(own, token["prob"]);
  }
  json greedy = body;
  greedy["temperature"] = 0;
  const json sure = server.post("/completion", greedy).json()["completion_probabilities"][0];
  EXPECT_EQ(sure["prob"], 1.0);
  EXPECT_EQ(sure["top_probs"].size(), 1u);
}

TEST(ServerAnswers, AMethodIsTheRequestsChoiceAndTellsWhatItDid) {
  const TestServer server;
  const json body = {{"prompt", long_text(2000)}, {"n_predict", 80},      {"ignore_eos", true},
                     {"method", "entropyinfer"},  {"threshold", 512},     {"base_budget", 256},
                     {"kv_budget", 256},          {"cache_prompt", false}};
  const json timings = server.post("/completion", body).json()["timings"];
  ASSERT_FALSE(timings.is_null());
  EXPECT_LT(timings["density"].get<double>(), 1.0);
  EXPECT_GT(timings["compressions"], 0);
  EXPECT_LT(timings["kv_tokens_kept"], timings["kv_tokens_total"]);
  // In every shape, whole and as a stream; Anthropic's has no timings, so only who asks for a method gets them.
  const auto of_chat = [&](json more) {
    json chat = body;
    chat.erase("prompt");
    chat.erase("n_predict");
    chat["max_tokens"] = 2;
    chat["input"] = body["prompt"];
    chat["messages"] = {{{"role", "user"}, {"content", body["prompt"]}}};
    chat.update(more);
    return chat;
  };
  for (const char* path : {"/v1/chat/completions", "/v1/messages", "/v1/responses"}) {
    const json whole = server.post(path, of_chat(json::object())).json();
    EXPECT_LT(whole["timings"].value("density", 1.0), 1.0) << path << whole;
    json last;
    bool progress = false;
    for (const json& event : server.post(path, of_chat({{"stream", true}, {"return_progress", true}})).events()) {
      if (event.contains("timings")) last = event["timings"];
      progress = progress || event.contains("prompt_progress");
    }
    EXPECT_LT(last.value("density", 1.0), 1.0) << path;
    EXPECT_TRUE(last.contains("kv_tokens_kept") && last.contains("kv_bytes") && last.contains("compressions")) << path;
    EXPECT_TRUE(progress) << path;
  }
  const json plain = {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"max_tokens", 1}};
  EXPECT_FALSE(server.post("/v1/messages", plain).json().contains("timings"));
  ServerOptions fixed = test_options();
  fixed.limits.request_methods = false;
  const Answer refused = TestServer(fixed).post("/completion", body);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "method");
}

TEST(ServerAnswers, ATextThatWasReadIsNotReadAgain) {
  const TestServer server;
  const std::string text = long_text(800);
  const json first = server.post("/completion", {{"prompt", text + " who"}, {"n_predict", 8}}).json();
  EXPECT_EQ(first["timings"]["cache_n"], 0);
  const json again = server.post("/completion", {{"prompt", text + " who"}, {"n_predict", 8}}).json();
  EXPECT_EQ(again["timings"]["prompt_n"], 1);
  EXPECT_EQ(again["content"], first["content"]);
  const json other = server.post("/v1/completions", {{"prompt", text + " where"}, {"max_tokens", 8}}).json();
  EXPECT_GT(other["usage"]["prompt_tokens_details"]["cached_tokens"], 500);
  const json fresh =
      server.post("/completion", {{"prompt", text + " where"}, {"n_predict", 8}, {"cache_prompt", false}}).json();
  EXPECT_EQ(fresh["timings"]["cache_n"], 0);
  EXPECT_EQ(fresh["content"], other["choices"][0]["text"]);
  // What was read sparsely is another text.
  const json sparse =
      server.post("/completion", {{"prompt", text + " who"}, {"n_predict", 2}, {"method", "entropyinfer"}}).json();
  EXPECT_EQ(sparse["timings"]["cache_n"], 0);
}

TEST(ServerAnswers, ASlotIsSavedAndRestored) {
  const kv::TempFolder folder;
  ServerOptions options = test_options();
  options.slot_save_path = folder.file("");
  const json body = {{"prompt", long_text(200)}, {"n_predict", 8}, {"id_slot", 1}};
  std::string text;
  {
    const TestServer server(options);
    text = server.post("/completion", body).json()["content"];
    EXPECT_GT(server.post("/slots/1?action=save", {{"filename", "one.bin"}}).json()["n_saved"], 100);
    EXPECT_EQ(server.post("/slots/1?action=save", {{"filename", "../one.bin"}}).status, 400);
  }
  const TestServer server(options);
  EXPECT_GT(server.post("/slots/1?action=restore", {{"filename", "one.bin"}}).json()["n_restored"], 100);
  const json again = server.post("/completion", body).json();
  EXPECT_EQ(again["timings"]["prompt_n"], 1);
  EXPECT_EQ(again["content"], text);
  EXPECT_GT(server.post("/slots/1?action=erase", json::object()).json()["n_erased"], 100);
  EXPECT_EQ(server.post("/completion", body).json()["timings"]["cache_n"], 0);
}

// As llama-server: --no-slots hides what runs, --slot-save-path opens what is done to slots.
TEST(ServerAnswers, SlotsThatAreNotShownAreSavedAllTheSame) {
  const kv::TempFolder folder;
  ServerOptions options = test_options();
  options.slots = false;
  options.slot_save_path = folder.file("");
  const TestServer server(options);
  EXPECT_EQ(server.get("/slots").status, 501);
  EXPECT_EQ(server.get("/props").json()["endpoint_slots"], false);
  server.post("/completion", {{"prompt", long_text(200)}, {"n_predict", 1}, {"id_slot", 1}});
  EXPECT_GT(server.post("/slots/1?action=save", {{"filename", "one.bin"}}).json()["n_saved"], 100);
  EXPECT_GT(server.post("/slots/1?action=restore", {{"filename", "one.bin"}}).json()["n_restored"], 100);
  options.slot_save_path.clear();
  const TestServer closed(options);
  for (const char* action : {"save", "restore"})
    EXPECT_EQ(closed.post(std::string("/slots/1?action=") + action, {{"filename", "one.bin"}}).status, 501) << action;
}

TEST(ServerAnswers, ASlotThatIsDamagedOnDiskIsAnErrorAndNothingIsRestored) {
  const kv::TempFolder folder;
  ServerOptions options = test_options();
  options.slot_save_path = folder.file("");
  const TestServer server(options);
  const json body = {{"prompt", long_text(200)}, {"n_predict", 2}, {"id_slot", 1}};
  server.post("/completion", body);
  const int64_t saved = server.post("/slots/1?action=save", {{"filename", "one.bin"}}).json()["n_saved"];
  ASSERT_GT(saved, 100);
  const std::vector<unsigned char> good = kv::read_all(folder.file("one.bin"));
  const auto tokens = static_cast<size_t>(saved) * sizeof(int32_t);
  // A bit of the text, of a row, of the last checksum, and the end of the file; the text lies behind the header.
  const auto in_text = std::search(good.begin(), good.end(), std::begin("slot-text"), std::end("slot-text") - 1);
  ASSERT_NE(in_text, good.end());
  const size_t text = static_cast<size_t>(in_text - good.begin()) + 9;
  for (const size_t at : {text, text + tokens / 2, text + tokens - 1, good.size() / 2, good.size() - 1, good.size()}) {
    std::vector<unsigned char> bytes = good;
    if (at < bytes.size()) {
      bytes[at] ^= 1;
    } else {
      bytes.resize(bytes.size() - 100);
    }
    kv::write_all(folder.file("bad.bin"), bytes);
    const Answer answer = server.post("/slots/0?action=restore", {{"filename", "bad.bin"}});
    EXPECT_GE(answer.status, 400) << at << " of " << good.size();
    EXPECT_NE(answer.json()["error"]["message"].get<std::string>().find("bad.bin"), std::string::npos) << answer.body;
    EXPECT_EQ(server.get("/slots").json()[0]["n_held"], 0) << at;
  }
  EXPECT_EQ(server.post("/slots/0?action=restore", {{"filename", "none.bin"}}).status, 400);
  EXPECT_EQ(server.post("/slots/0?action=restore", {{"filename", "one.bin"}}).json()["n_restored"], saved);
}

}  // namespace
}  // namespace ei::server
