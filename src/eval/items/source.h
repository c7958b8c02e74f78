// The items of a run: which there are, and each as it is needed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/exam.h"
#include "eval/items/item.h"
#include "eval/items/prompt.h"
#include "text/tokenizer.h"

namespace ei::eval {

struct SourceOptions {
  std::vector<std::string> tasks;  // names, groups, KIND:FILE
  std::vector<int64_t> lengths;
  int64_t samples = 10;  // of each task and length; of each file, at most
  int64_t depths = 10;   // single facts stand at so many places in turn
  uint64_t seed = 1;
  std::function<Haystack(uint64_t seed)> haystack{};
  const text::Tokenizer* tokenizer = nullptr;
  ChatFrame frame;  // of the model's template, or plain
  bool has_template = true;
};

// One item that can be made.
struct ItemRef {
  std::string task;
  int64_t length = 0;
  int64_t index = 0;
  size_t file_item = 0;  // of a file: which; else kGenerated
  std::string id;
};

class ItemSource {
 public:
  static Result<ItemSource> open(SourceOptions options);

  const std::vector<ItemRef>& refs() const { return refs_; }
  Result<Item> make(const ItemRef& ref) const;
  Result<ItemPrompt> prompt(const Item& item) const;

 private:
  explicit ItemSource(SourceOptions options) : options_(std::move(options)) {}
  void fit_room(Item& item) const;

  SourceOptions options_;
  ChatFrame plain_;
  int64_t frame_tokens_ = 0;
  std::vector<Item> from_files_;
  std::vector<ItemRef> refs_;
};

// An item as a line of JSON: context and turns as text and as tokens, metric, gold; and `prompt`, the text up to the
// first answer without the token that tokenizers put in front themselves, and without what a cut left of a character.
// `prompt_is_exact`: tokenized as a whole, control tokens included, it gives the same tokens.
std::string dumped_item(const Item& item, const ItemPrompt& prompt, const text::Tokenizer& tokenizer);

}  // namespace ei::eval
