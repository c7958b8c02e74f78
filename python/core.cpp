// entropyinfer._core: the classes of the library for Python. entropyinfer/__init__.py makes them comfortable.
#include "core.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>

namespace ei_python {

using entropyinfer::Answer;
using entropyinfer::Engine;
using entropyinfer::GenerateOptions;
using entropyinfer::Session;
using entropyinfer::Tokens;
using Unlocked = nb::call_guard<nb::gil_scoped_release>;

void raise(const entropyinfer::Error& error) {
  switch (error.kind) {
    case EI_USAGE: throw Raised<EI_USAGE>(error.message);
    case EI_MODEL: throw Raised<EI_MODEL>(error.message);
    case EI_MEMORY: throw Raised<EI_MEMORY>(error.message);
    case EI_INTERRUPTED: throw Raised<EI_INTERRUPTED>(error.message);
    default: throw Raised<EI_RUNTIME>(error.message);
  }
}

namespace {
nb::dict model_info(const Engine& engine) {
  const EiModelInfo info = engine.info();
  nb::dict facts;
  facts["architecture"] = info.architecture;
  facts["name"] = info.name;
  facts["layers"] = info.layers;
  facts["heads"] = info.heads;
  facts["kv_heads"] = info.kv_heads;
  facts["head_dim"] = info.head_dim;
  facts["vocab"] = info.vocab;
  facts["context"] = info.context;
  facts["weight_bytes"] = info.weight_bytes;
  facts["has_chat_template"] = info.has_chat_template != 0;
  return facts;
}

nb::dict session_stats(const Session& session) {
  const EiStats stats = session.stats();
  nb::dict facts;
  facts["prompt_tokens"] = stats.prompt_tokens;
  facts["generated_tokens"] = stats.generated_tokens;
  facts["prompt_s"] = stats.prompt_s;
  facts["decode_s"] = stats.decode_s;
  facts["density"] = stats.density;
  facts["kv_bytes"] = stats.kv_bytes;
  facts["kv_bytes_full"] = stats.kv_bytes_full;
  facts["compressions"] = stats.compressions;
  return facts;
}

// float32 [tokens, vocab]
nb::ndarray<nb::numpy, float> all_logits(Session& session, const Tokens& tokens) {
  std::vector<float> values;
  size_t width = 0;
  {
    const nb::gil_scoped_release unlocked;
    check(session.evaluate(tokens, [&](int64_t, const float* logits, size_t vocab) {
      width = vocab;
      values.insert(values.end(), logits, logits + vocab);
      return true;
    }));
  }
  return array_of(std::move(values), {tokens.size(), width});
}

nb::ndarray<nb::numpy, float> last_logits(const Session& session) {
  std::vector<float> values = session.logits();
  const size_t vocab = values.size();
  return array_of(std::move(values), {vocab});
}

Session new_session(const Engine& engine, int64_t context, int64_t batch, std::string method,
                    std::string method_options, std::string key_type, std::string value_type, bool kv_free,
                    bool keep_plan) {
  entropyinfer::SessionOptions options;
  options.context = context;
  options.batch = batch;
  options.method = std::move(method);
  options.method_options = std::move(method_options);
  options.key_type = std::move(key_type);
  options.value_type = std::move(value_type);
  options.kv_free = kv_free;
  options.keep_plan = keep_plan;
  return taken(engine.new_session(options));
}

std::vector<std::pair<std::string, std::string>> pairs_of(const std::vector<entropyinfer::Named>& list) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [name, summary] : list) pairs.emplace_back(name, summary);
  return pairs;
}

template <EiStatus kKind>
void bind_error(nb::module_& module, const char* name, nb::handle base) {
  nb::exception<Raised<kKind>>(module, name, base.ptr());
}
}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "The classes of libentropyinfer.";
  bind_error<EI_RUNTIME>(module, "Error", PyExc_RuntimeError);
  const nb::object error = module.attr("Error");
  bind_error<EI_USAGE>(module, "UsageError", error);
  bind_error<EI_MODEL>(module, "ModelError", error);
  bind_error<EI_MEMORY>(module, "OutOfMemoryError", error);
  bind_error<EI_INTERRUPTED>(module, "InterruptedError", error);

  module.def("version", [] { return std::string(ei_version()); });
  module.def("methods", [] { return pairs_of(entropyinfer::methods()); });
  module.def("devices", [] { return pairs_of(entropyinfer::devices()); });

  nb::class_<GenerateOptions>(module, "GenerateOptions")
      .def(nb::init<>())
      .def_rw("max_tokens", &GenerateOptions::max_tokens)
      .def_rw("temp", &GenerateOptions::temp)
      .def_rw("seed", &GenerateOptions::seed)
      .def_rw("top_k", &GenerateOptions::top_k)
      .def_rw("top_p", &GenerateOptions::top_p)
      .def_rw("min_p", &GenerateOptions::min_p)
      .def_rw("repeat_penalty", &GenerateOptions::repeat_penalty)
      .def_rw("stop", &GenerateOptions::stop)
      .def_rw("grammar", &GenerateOptions::grammar)
      .def_rw("json_schema", &GenerateOptions::json_schema)
      .def_rw("ignore_eos", &GenerateOptions::ignore_eos)
      .def_rw("whole_prompt", &GenerateOptions::whole_prompt)
      .def_rw("on_text", &GenerateOptions::on_text)
      .def_rw("on_progress", &GenerateOptions::on_progress);

  nb::class_<Answer>(module, "Answer")
      .def_ro("text", &Answer::text)
      .def_ro("tokens", &Answer::tokens)
      .def_ro("finish_reason", &Answer::finish_reason)
      .def_ro("cached_tokens", &Answer::cached_tokens)
      .def_ro("ttft_s", &Answer::ttft_s)
      .def_ro("seed", &Answer::seed);

  nb::class_<Session> session(module, "Session");
  session
      .def(
          "generate",
          [](Session& self, const Tokens& prompt, const GenerateOptions& options) {
            return taken(self.generate(prompt, options));
          },
          nb::arg("prompt"), nb::arg("options"), Unlocked())
      .def(
          "prefill",
          [](Session& self, const Tokens& tokens, Session::ProgressFn on_progress) {
            check(self.prefill(tokens, std::move(on_progress)));
          },
          nb::arg("tokens"), nb::arg("on_progress") = nb::none(), Unlocked())
      .def(
          "decode", [](Session& self, int32_t token) { check(self.decode(token)); }, nb::arg("token"), Unlocked())
      .def("evaluate", &all_logits, nb::arg("tokens"), "float32 [tokens, vocab]: the logits of every position")
      .def("logits", &last_logits, "float32 [vocab]: of the last token")
      .def(
          "truncate", [](Session& self, int64_t position) { check(self.truncate(position)); }, nb::arg("position"))
      .def("cancel", &Session::cancel)
      .def_prop_ro("position", &Session::position)
      .def_prop_ro("context", &Session::context)
      .def_prop_ro("stats", &session_stats);
  bind_plans(session);

  nb::class_<Engine>(module, "Engine")
      .def_static(
          "load",
          [](std::string model, std::string device, int threads) {
            entropyinfer::EngineOptions options;
            options.model = std::move(model);
            options.device = std::move(device);
            options.threads = threads;
            return taken(Engine::load(options));
          },
          nb::arg("model"), nb::arg("device") = "cpu", nb::arg("threads") = 0, Unlocked())
      .def_prop_ro("info", &model_info)
      .def("new_session", &new_session, nb::arg("context") = 0, nb::arg("batch") = 0, nb::arg("method") = "full",
           nb::arg("method_options") = "", nb::arg("key_type") = "", nb::arg("value_type") = "",
           nb::arg("kv_free") = false, nb::arg("keep_plan") = false)
      .def(
          "tokenize",
          [](const Engine& self, std::string_view text, bool add_bos_eos, bool parse_special) {
            const int flags = (add_bos_eos ? EI_ADD_BOS_EOS : 0) | (parse_special ? EI_PARSE_SPECIAL : 0);
            return taken(self.tokenize(text, flags));
          },
          nb::arg("text"), nb::arg("add_bos_eos") = true, nb::arg("parse_special") = false, Unlocked())
      .def(
          "detokenize",
          [](const Engine& self, const Tokens& tokens, bool special) {
            const std::string bytes = taken(self.detokenize(tokens, special ? EI_PARSE_SPECIAL : 0));
            return nb::bytes(bytes.data(), bytes.size());
          },
          nb::arg("tokens"), nb::arg("special") = false)
      .def(
          "chat_tokens",
          [](const Engine& self, const std::vector<std::pair<std::string, std::string>>& messages,
             const std::string& chat_template) {
            std::vector<entropyinfer::Message> list;
            for (const auto& [role, content] : messages) list.push_back({role, content});
            return taken(self.chat_tokens(list, chat_template));
          },
          nb::arg("messages"), nb::arg("chat_template") = "");
}

}  // namespace ei_python
