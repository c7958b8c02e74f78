// Settings: what a command line, the environment and a config file can say, with the defaults. options.cpp binds every
// field to its flag; nothing else parses anything.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "text/sampler.h"

namespace ei::cli {

struct Settings {
  // The model and the machine.
  std::string model;  // empty: the model that ships with the program
  std::string device = "cpu";
  int64_t threads = 0;         // 0: all cores
  int64_t ctx_size = 0;        // 0: the model's
  int64_t prompt_threads = 0;  // for prompts; 0: as many
  int64_t batch_size = 0;      // 0: chosen by the engine
  int64_t ubatch_size = 0;     // 0: no limit beside it
  bool no_mmap = false;
  bool mlock = false;
  int64_t packed_memory = -1;  // MiB; -1: chosen by the engine
  std::string override_kv;     // metadata in place of the file's (model_overrides.h)
  std::string rope_scaling;    // this and the next four: empty or 0 is what the file says; of the others -1
  double rope_scale = 0;
  double rope_freq_scale = 0;
  double rope_freq_base = 0;
  int64_t yarn_orig_ctx = 0;
  double yarn_ext_factor = -1;
  double yarn_attn_factor = -1;
  double yarn_beta_slow = -1;
  double yarn_beta_fast = -1;
  std::string cache_type_k;
  std::string cache_type_v;
  std::string method = "full";
  std::map<std::string, std::string> method_options;  // changes to its preset, by option name (method_options.h)

  // The prompt.
  std::optional<std::string> prompt;
  std::string file;
  std::string system_prompt;
  std::string system_prompt_file;
  bool escape = false;  // backslashes in the prompt, the system prompt and stop strings mean something
  bool raw = false;
  std::string chat_template;
  std::string chat_template_file;
  std::string prompt_cache;
  bool single_turn = false;
  bool kv_free = false;  // of a chat: a compression gives the memory of what it drops back

  // Generation.
  int64_t predict = -1;
  int64_t seed = -1;  // -1: random
  double temp = 0.8;
  int64_t top_k = 40;
  double top_p = 0.95;
  double min_p = 0.05;
  double repeat_penalty = 1.0;
  int64_t repeat_last_n = 64;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  text::SamplerOptions sampling;  // what has no field of its own here (sampler_flags.cpp)
  bool ignore_eos = false;
  std::vector<std::string> stop;
  std::string grammar;
  std::string grammar_file;
  std::string json_schema;
  std::string json_schema_file;

  // Output.
  bool json = false;
  std::string logits_out;
  std::string dump_plan;
  bool no_display_prompt = false;
  std::string color = "auto";
  bool verbose = false;
  std::string log_file;
  std::string config;
  std::vector<std::string> notes;  // switches of llama.cpp that change nothing here, and why
  bool help = false;
  bool help_methods = false;
  bool help_all = false;
  bool version = false;
  bool list_devices = false;

  // tokenize
  bool ids = false;
  bool no_bos = false;
  bool parse_special = false;

  // bench
  std::vector<int64_t> bench_prompt = {512};
  std::vector<int64_t> bench_gen = {128};
  std::vector<int64_t> bench_depth = {0};
  std::vector<int64_t> bench_batch = {0};
  std::vector<int64_t> bench_threads = {0};
  std::vector<std::string> bench_methods = {"full"};
  int64_t repetitions = 5;
  std::string output = "md";
  bool no_warmup = false;
  bool roofline = false;

  // perplexity
  int64_t ppl_ctx_size = 512;
  int64_t chunks = -1;
  bool decode = false;        // the scored half is fed like generated text
  int64_t decode_tokens = 0;  // so many instead of the half; 0: the half
  int64_t ppl_stride = 1;
  bool kl_divergence = false;
  std::string vs;

  // eval
  std::vector<std::string> eval_methods = {"full", "entropyinfer"};
  std::vector<int64_t> eval_lengths = {4096};
  int64_t eval_samples = 5;
  int64_t eval_depths = 0;
  int64_t eval_parallel = 1;
  bool question_agnostic = false;
  std::string eval_out;
  std::string dump_items;
  std::string predictions;
  bool list_tasks = false;
  bool list_options = false;
  bool teacher_forced = false;
  std::vector<std::string> eval_tasks = {"multi", "list", "num", "var"};
  int64_t eval_length = 8192;
  int64_t eval_contexts = 8;
  int64_t eval_seed = 1;
  int64_t eval_stride = 7;
  std::string haystack;
  std::string eval_vs = "method=full";
  std::string eval_also;

  // inspect
  std::string report = "report.html";

  // serve
  std::string host = "127.0.0.1";
  int64_t port = 8080;
  int64_t parallel = 4;
  int64_t queue = 64;
  int64_t cache_ram = 2048;  // MiB
  std::string cache_path;
  int64_t cache_disk = 8192;  // MiB
  std::string alias;          // empty: the model file's name
  std::string tags;
  std::string api_key;
  std::string api_key_file;
  std::string ssl_cert_file;
  std::string ssl_key_file;
  std::string slot_save_path;
  bool slots = false;
  bool no_slots = false;
  bool metrics = false;
  std::string kv_events;
  bool no_ui = false;
  std::string access_log;
  std::string cors_origin;
  int64_t max_body = 64;  // MiB
  int64_t max_seconds = 0;
  int64_t timeout = 30;
  std::string reasoning = "auto";
  std::string reasoning_format = "auto";
  bool fixed_method = false;
  int64_t drain_seconds = 30;

  // demo
  int64_t demo_seed = 1;
  int64_t demo_tokens = 0;  // 0: as many as demo_pace.h finds fit
  std::vector<std::string> demo_methods = {"full", "entropyinfer"};
};

}  // namespace ei::cli
