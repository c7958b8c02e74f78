// The prompts of a text completion, in all the shapes they come in.
#include <algorithm>

#include "server/api/api.h"
#include "server/api/named_texts.h"
#include "server/api/prompt_limit.h"

namespace ei::server {

namespace {
constexpr size_t kMaxPrompts = 128;
constexpr const char* kShapes = "must be a text, a list of tokens, or a list of these";

bool is_token(const Json& json) { return json.is_number_integer(); }

class PromptReader {
 public:
  PromptReader(Fields& fields, const char* name, const Call& call)
      : fields_(fields), name_(name), call_(call), tokenizer_(call.api.tokenizer()), named_(fields, call) {}

  std::vector<int32_t> one(const Json& json) {
    std::vector<int32_t> tokens;
    limit_.emplace(tokenizer_, call_.api.context(), call_.gone.get());
    if (json.is_array()) {
      for (const Json& part : json) {
        if (fields_.error()) break;
        add(part, tokens);
      }
    } else {
      add(json, tokens);
    }
    return tokens;
  }

 private:
  void add(const Json& part, std::vector<int32_t>& tokens) {
    if (is_token(part)) {
      const auto token = part.get<int64_t>();
      if (token < 0 || token >= tokenizer_.vocab_size())
        return fields_.fail(name_, str_format("names token %lld, which the vocabulary of %d has not",
                                              static_cast<long long>(token), tokenizer_.vocab_size()));
      tokens.push_back(static_cast<int32_t>(token));
    } else if (part.is_string()) {
      add_text(part.get<std::string>(), tokens);
    } else if (part.is_object() && part.contains("prompt_string") && part["prompt_string"].is_string()) {
      if (part.contains("multimodal_data")) return fields_.fail(name_, "holds media, which this model does not read");
      add_text(part["prompt_string"].get<std::string>(), tokens);
    } else if (part.is_object() && part.contains("prompt_parts") && part["prompt_parts"].is_array()) {
      const std::string text = joined(part["prompt_parts"]);
      if (!fields_.error()) add_text(text, tokens);
    } else {
      fields_.fail(name_, kShapes);
    }
  }

  // Made tokens of as one text: where it was cut does not show.
  std::string joined(const Json& parts) {
    std::string text;
    for (const Json& part : parts) {
      const std::shared_ptr<const std::string> left = named_.find(part);
      if (left == nullptr && !part.is_string()) fields_.fail(name_, "has parts that are neither texts nor 'text_id's");
      if (fields_.error()) return {};
      text += left != nullptr ? *left : part.get<std::string>();
    }
    return text;
  }

  void add_text(const std::string& text, std::vector<int32_t>& tokens) {
    if (!limit_->may_fit(text, /*parse_special=*/true)) return fields_.fail(*limit_->error());
    const bool first = tokens.empty();
    const Result<std::vector<text::Token>> made =
        tokenizer_.tokenize(text, {.add_bos_eos = first, .parse_special = true});
    if (!made.ok()) return fields_.fail(name_, "cannot be read: " + made.error().message);
    tokens.insert(tokens.end(), made->begin(), made->end());
  }

  Fields& fields_;
  const char* name_;
  const Call& call_;
  const text::Tokenizer& tokenizer_;
  NamedTexts named_;
  std::optional<PromptLimit> limit_{};  // of the prompt that is read
};
}  // namespace

Prompts read_prompts(Fields& fields, const char* name, const Call& call) {
  Prompts prompts;
  const Json* given = fields.find(name);
  if (given == nullptr) {
    fields.fail(name, "is missing");
    return prompts;
  }
  PromptReader reader(fields, name, call);
  // A list with a token in it is one prompt; otherwise each member is.
  prompts.many = given->is_array() && std::none_of(given->begin(), given->end(), is_token);
  if (!prompts.many) {
    prompts.tokens.push_back(reader.one(*given));
    return prompts;
  }
  if (given->empty() || given->size() > kMaxPrompts) fields.fail(name, kShapes);
  for (const Json& one : *given) {
    if (fields.error()) break;
    prompts.tokens.push_back(reader.one(one));
  }
  return prompts;
}

}  // namespace ei::server
