#include "eval/items/source.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "eval/items/files.h"
#include "eval/items/registry.h"
#include "text/utf8.h"

namespace ei::eval {
namespace {

constexpr size_t kGenerated = std::numeric_limits<size_t>::max();
constexpr int64_t kBesideAnswer = 4;  // tokens: a space, a quotation mark, what tells that a number has ended
constexpr int64_t kBesideList = 64;   // tokens: a sentence in front, brackets

// The same item whatever else a run asks for.
uint64_t seed_of(uint64_t seed, const ItemRef& ref) {
  uint64_t hash = 0xcbf29ce484222325ull ^ seed * 1000003u;
  for (const char c : ref.id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash >> 8;  // generators multiply it
}

// Where a text lost its middle, the token in front of the gap or behind it may be a part of a character only.
std::string whole_characters(std::string_view text) {
  std::string whole;
  for (size_t at = 0, length = 0; at < text.size(); at += length)
    if (text::utf8_step(text.substr(at), &length) == text::Utf8::kCharacter) whole += text.substr(at, length);
  return whole;
}

// Is `text` read as these tokens?
bool gives(const text::Tokenizer& tokenizer, const std::string& text, const std::vector<text::Token>& tokens) {
  const auto again = tokenizer.tokenize(text, {.add_bos_eos = true, .parse_special = true});
  return again.ok() && *again == tokens;
}

// The text of these tokens. Some vocabularies drop spaces in front of punctuation when a text is put together, so that
// only the pieces give the same tokens again.
std::string spelled(const text::Tokenizer& tokenizer, std::span<const text::Token> tokens) {
  std::string text = whole_characters(tokenizer.detokenize(tokens, true));
  std::string pieces;
  for (const text::Token token : tokens) pieces += tokenizer.piece(token, true);
  if (pieces == text || !text::valid_utf8(pieces)) return text;
  const auto read = [&](const std::string& one) {
    const auto again = tokenizer.tokenize(one, {.add_bos_eos = false, .parse_special = true});
    return again.ok() && std::equal(again->begin(), again->end(), tokens.begin(), tokens.end());
  };
  return !read(text) && read(pieces) ? pieces : text;
}

}  // namespace

Result<ItemSource> ItemSource::open(SourceOptions options) {
  EI_ASSIGN_OR_RETURN(const std::vector<std::string> tasks, expand_tasks(options.tasks));
  ItemSource source(std::move(options));
  EI_ASSIGN_OR_RETURN(source.plain_, plain_frame(*source.options_.tokenizer));
  const ChatFrame& frame = source.options_.frame;
  source.frame_tokens_ = static_cast<int64_t>(std::max(frame.head.size(), frame.next.size()) + frame.answer.size());
  if (!source.options_.has_template) source.frame_tokens_ += 4;  // the lead
  std::vector<int64_t>& lengths = source.options_.lengths;
  for (auto length = lengths.begin(); length != lengths.end();)
    length = std::find(lengths.begin(), length, *length) == length ? length + 1 : lengths.erase(length);
  // Items of a task are counted on from file to file, behind those that are generated.
  std::map<std::string, int64_t> count;
  for (const std::string& task : tasks)
    if (task.find(':') == std::string::npos) count[task] = source.options_.samples;
  for (const std::string& task : tasks) {
    std::vector<std::pair<std::string, size_t>> members;  // of a file: task and item
    if (task.find(':') != std::string::npos) {
      EI_ASSIGN_OR_RETURN(std::vector<Item> items, read_item_file(task));
      for (Item& item : items) {
        if (item.index >= source.options_.samples) continue;
        item.index = count[item.task]++;
        source.fit_room(item);
        members.emplace_back(item.task, source.from_files_.size());
        source.from_files_.push_back(std::move(item));
      }
    }
    for (const int64_t length : source.options_.lengths) {
      const auto add = [&](const std::string& name, int64_t index, size_t file_item) {
        ItemRef ref{.task = name, .length = length, .index = index, .file_item = file_item, .id = {}};
        ref.id =
            str_format("%s/%lld/%lld", name.c_str(), static_cast<long long>(length), static_cast<long long>(index));
        source.refs_.push_back(std::move(ref));
      };
      for (const auto& [name, at] : members) add(name, source.from_files_[at].index, at);
      if (!members.empty()) continue;
      for (int64_t index = 0; index < source.options_.samples; ++index) add(task, index, kGenerated);
    }
  }
  return source;
}

void ItemSource::fit_room(Item& item) const {
  if (item.room == AnswerRoom::kGiven) return;
  const auto size = [&](const std::string& text) {
    const auto tokens = options_.tokenizer->tokenize(text, {});
    return tokens.ok() ? static_cast<int64_t>(tokens->size()) : 0;
  };
  for (const ItemTurn& turn : item.turns) {
    std::string list;
    for (const std::string& answer : turn.gold.answers) {
      if (item.room == AnswerRoom::kWhole) item.max_new = std::max(item.max_new, size(answer) + kBesideAnswer);
      list += answer + ", ";
    }
    if (item.room == AnswerRoom::kList) item.max_new = std::min(item.max_new, size(list) + kBesideList);
  }
}

Result<Item> ItemSource::make(const ItemRef& ref) const {
  Item item;
  if (ref.file_item != kGenerated) {
    item = from_files_[ref.file_item];
  } else {
    ItemRequest request{.task = ref.task, .length = ref.length, .seed = seed_of(options_.seed, ref)};
    if (options_.depths > 1)
      request.depth = static_cast<double>(ref.index % options_.depths) / static_cast<double>(options_.depths - 1);
    request.frame_tokens = frame_tokens_;
    request.haystack = options_.haystack;
    request.count_tokens = [&](std::string_view text) {
      const auto tokens = options_.tokenizer->tokenize(text, {});
      return tokens.ok() ? static_cast<int64_t>(tokens->size()) : 0;
    };
    EI_ASSIGN_OR_RETURN(item, make_item(request));
  }
  item.length = ref.length;
  item.index = ref.index;
  if (!options_.has_template && item.lead.empty() && !item.plain && item.has_question) item.lead = kPlainLead;
  return item;
}

Result<ItemPrompt> ItemSource::prompt(const Item& item) const {
  return make_item_prompt(item, *options_.tokenizer, item.plain ? plain_ : options_.frame, item.length);
}

std::string dumped_item(const Item& item, const ItemPrompt& prompt, const text::Tokenizer& tokenizer) {
  std::vector<text::Token> first = prompt.context;
  first.insert(first.end(), prompt.turns[0].begin(), prompt.turns[0].end());
  const bool begins = tokenizer.adds_bos() && !first.empty() && first[0] == tokenizer.bos();
  const std::string text = spelled(tokenizer, std::span(first).subspan(begins ? 1 : 0));
  nlohmann::ordered_json turns = nlohmann::ordered_json::array();
  for (size_t i = 0; i < item.turns.size(); ++i) {
    const ItemTurn& turn = item.turns[i];
    turns.push_back({{"question", turn.question},
                     {"prompt", spelled(tokenizer, prompt.turns[i])},
                     {"tokens", prompt.turns[i]},
                     {"answers", turn.gold.answers},
                     {"classes", turn.gold.classes}});
  }
  const nlohmann::ordered_json object = {{"item", item.id()},
                                         {"task", item.task},
                                         {"length", item.length},
                                         {"index", item.index},
                                         {"depth", item.depth},
                                         {"metric", item.metric->name},
                                         {"max_new_tokens", item.max_new},
                                         {"lead", item.lead},
                                         {"choices", item.choices},
                                         {"truncated", prompt.truncated},
                                         {"context", spelled(tokenizer, prompt.context)},
                                         {"tokens", prompt.context},
                                         {"turns", turns},
                                         {"prompt", text},
                                         {"prompt_is_exact", gives(tokenizer, text, first)}};
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ei::eval
