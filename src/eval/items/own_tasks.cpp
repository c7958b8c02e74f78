// Our own kinds as items, questions about facts in documents (qa), and chats.
#include <algorithm>

#include "eval/facts.h"
#include "eval/items/generators.h"
#include "eval/items/texts.h"
#include "eval/prose.h"
#include "eval/task_kind.h"

namespace ei::eval {
namespace {

constexpr int64_t kDocumentAnswer = 32;
constexpr int64_t kTurnAnswer = 96;
constexpr int kChatLines = 12;  // of one kind, at most
// The list is longer than methods wait: later turns are answered from a cache that was compressed in between.
constexpr std::string_view kChatKinds[] = {"num", "list", "multi", "hex"};

bool asks_one_fact(const std::string& kind) {
  const Result<const TaskKind*> found = find_task_kind(kind);
  return found.ok() && (*found)->one_fact;
}

}  // namespace

Result<Item> make_kind_item(const ItemRequest& request) {
  TaskSpec spec;
  spec.kind = request.task;
  spec.target_tokens = request.length;
  spec.seed = request.seed;
  if (asks_one_fact(request.task)) spec.depth = request.depth;
  if (request.haystack) spec.haystack = request.haystack(request.seed);
  spec.template_tokens = request.frame_tokens;
  spec.new_wording = true;
  EI_ASSIGN_OR_RETURN(const Task task, make_task(spec, request.count_tokens));
  Item item{.task = request.task, .length = request.length, .context = task.context, .max_new = task.max_new_tokens};
  item.turns = {{.question = task.question, .gold = {.answers = task.gold_strings}}};
  if (spec.depth) item.depth = task.depth;
  return item;
}

Result<Item> make_documents_item(const ItemRequest& request) {
  Random random(request.seed);
  const Facts asked = make_para(random, {.depth = 0, .max_lines = 1, .single = true});
  Prose prose(random.next());
  Random others(random.next());
  std::vector<std::string> documents;
  const auto document = [&](const std::string& fact) {
    std::string text = prose.sentence() + " " + prose.sentence() + " " + fact + " " + prose.sentence();
    return text + " " + prose.sentence();
  };
  const std::string gold = document(asked.lines[0]);
  const auto text_of = [&](size_t count) {
    while (documents.size() < count) {
      const Facts other = make_para(others, {.depth = 0, .max_lines = 1, .single = true});
      if (other.question != asked.question && other.lines[0] != asked.lines[0])
        documents.push_back(document(other.lines[0]));
    }
    const auto at = static_cast<size_t>(request.depth * static_cast<double>(count));
    std::string text = "Answer the question from the documents below, in as few words as possible.\n";
    for (size_t i = 0, number = 1; i <= count; ++i) {
      const auto add = [&](const std::string& body) {
        text += str_format("\nDocument %zu:\n", number++) + body + "\n";
      };
      if (i == at) add(gold);
      if (i < count) add(documents[i]);
    }
    return text;
  };
  EI_ASSIGN_OR_RETURN(const size_t count, most_units(request, text_room(request, kDocumentAnswer, 1), [&](size_t n) {
                        return request.count_tokens(text_of(n)) + request.count_tokens("\n\n" + asked.question);
                      }));
  Item item{.task = request.task, .length = request.length, .context = text_of(count), .max_new = kDocumentAnswer};
  item.turns = {{.question = asked.question, .gold = {.answers = asked.gold_strings}}};
  item.depth = request.depth;
  return item;
}

Result<Item> make_chat_item(const ItemRequest& request) {
  Random random(request.seed);
  std::vector<PlacedLine> lines;
  Item item{.task = request.task, .length = request.length, .max_new = kTurnAnswer};
  std::string questions;
  for (const std::string_view kind : kChatKinds) {
    EI_ASSIGN_OR_RETURN(const TaskKind* made, find_task_kind(kind));
    const Facts facts = made->make(random, {.depth = random.uniform(), .max_lines = kChatLines, .few = true});
    std::vector<double> depths(facts.lines.size());
    for (double& depth : depths) depth = random.uniform();
    std::sort(depths.begin(), depths.end());  // entries of a list are asked for in order
    for (size_t i = 0; i < depths.size(); ++i) lines.push_back({facts.lines[i], depths[i]});
    item.turns.push_back({.question = facts.question, .gold = {.answers = facts.gold_strings}});
    questions += facts.question + "\n";
  }
  const ItemFrame frame{.head = "", .tail = questions, .max_new = kTurnAnswer, .turns = item.turns.size()};
  EI_ASSIGN_OR_RETURN(item.context, fill_with_prose(request, frame, random.next(), std::move(lines)));
  return item;
}

}  // namespace ei::eval
