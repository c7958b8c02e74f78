// Engine: a loaded model. Const after load; any number of sessions run on it, each in a thread of its own if need be.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "entropyinfer/options.h"
#include "entropyinfer/result.h"
#include "entropyinfer/session.h"

namespace entropyinfer {

class Engine {
 public:
  static Result<Engine> load(const EngineOptions& options) {
    EiEngineOptions given{};
    given.size = sizeof given;
    given.model = options.model.c_str();
    given.device = options.device.c_str();
    given.threads = options.threads;
    EiEngine* handle = nullptr;
    if (const EiStatus status = ei_engine_load(&given, &handle); status != EI_OK) return detail::failure(status);
    return Engine(handle);
  }

  // Names in it live as long as the engine.
  EiModelInfo info() const {
    EiModelInfo info{};
    info.size = sizeof info;
    ei_engine_info(handle_.get(), &info);
    return info;
  }

  Result<Session> new_session(const SessionOptions& options = {}) const {
    EiSessionOptions given{};
    given.size = sizeof given;
    given.context = options.context;
    given.batch = options.batch;
    given.method = options.method.c_str();
    given.method_options = detail::text_or_null(options.method_options);
    given.key_type = detail::text_or_null(options.key_type);
    given.value_type = detail::text_or_null(options.value_type);
    given.kv_free = options.kv_free ? 1 : 0;
    given.keep_plan = options.keep_plan ? 1 : 0;
    EiSession* session = nullptr;
    if (const EiStatus status = ei_session_new(handle_.get(), &given, &session); status != EI_OK) {
      return detail::failure(status);
    }
    return Session(session);
  }

  // `flags`: EI_ADD_BOS_EOS, EI_PARSE_SPECIAL.
  Result<Tokens> tokenize(std::string_view text, int flags = EI_ADD_BOS_EOS) const {
    return listed<int32_t>([&](int32_t* tokens, size_t capacity, size_t* count) {
      return ei_tokenize(handle_.get(), text.data(), text.size(), flags, tokens, capacity, count);
    });
  }
  // Bytes: single tokens are not always whole characters.
  Result<std::string> detokenize(const Tokens& tokens, int flags = 0) const {
    Result<std::vector<char>> bytes = listed<char>([&](char* text, size_t capacity, size_t* count) {
      return ei_detokenize(handle_.get(), tokens.data(), tokens.size(), flags, text, capacity, count);
    });
    if (!bytes.ok()) return bytes.error();
    return std::string(bytes->begin(), bytes->end());
  }
  // Messages as a prompt that an answer follows. `chat_template`: Jinja, "chatml", or empty for the model's own.
  Result<Tokens> chat_tokens(const std::vector<Message>& messages, const std::string& chat_template = {}) const {
    std::vector<EiMessage> given;
    given.reserve(messages.size());
    for (const Message& message : messages) given.push_back({message.role.c_str(), message.content.c_str()});
    return listed<int32_t>([&](int32_t* tokens, size_t capacity, size_t* count) {
      return ei_chat_tokens(handle_.get(), given.data(), given.size(), detail::text_or_null(chat_template), tokens,
                            capacity, count);
    });
  }

 private:
  struct Free {
    void operator()(EiEngine* engine) const { ei_engine_free(engine); }
  };
  explicit Engine(EiEngine* handle) : handle_(handle) {}

  // A list whose length the call says: asked for once, and again where it was longer than expected.
  template <typename Element, typename Call>
  static Result<std::vector<Element>> listed(const Call& call) {
    std::vector<Element> list(256);
    for (;;) {
      size_t count = 0;
      if (const EiStatus status = call(list.data(), list.size(), &count); status != EI_OK)
        return detail::failure(status);
      const bool whole = count <= list.size();
      list.resize(count);
      if (whole) return list;
    }
  }

  std::unique_ptr<EiEngine, Free> handle_;
};

namespace detail {
inline std::vector<Named> all_named(const char* (*at)(size_t, const char**)) {
  std::vector<Named> list;
  const char* summary = nullptr;
  while (const char* name = at(list.size(), &summary)) list.push_back({name, summary});
  return list;
}
}  // namespace detail

// What EngineOptions::device and SessionOptions::method take.
inline std::vector<Named> devices() { return detail::all_named(ei_device); }
inline std::vector<Named> methods() { return detail::all_named(ei_method); }

}  // namespace entropyinfer
