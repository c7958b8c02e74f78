#include "eval/run/predictions.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "eval/items/item_hash.h"

namespace ei::eval {
namespace {

struct Prediction {
  std::string item;
  std::string method;
  std::vector<std::string> texts;
};

Result<Prediction> parse_prediction(const std::string& line) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return Error{ErrorKind::kUsage, "not a JSON object"};
  try {
    Prediction prediction{.item = object.at("item"), .method = object.at("method"), .texts = {}};
    if (object.contains("predictions")) {
      object["predictions"].get_to(prediction.texts);
    } else {
      prediction.texts = {object.at("prediction")};
    }
    return prediction;
  } catch (const nlohmann::json::exception& error) {
    return make_error(ErrorKind::kUsage, "%s", error.what());
  }
}

Result<ItemResult> score_prediction(const ItemSource& source, const Prediction& prediction) {
  const auto& refs = source.refs();
  const auto ref = std::find_if(refs.begin(), refs.end(), [&](const ItemRef& r) { return r.id == prediction.item; });
  if (ref == refs.end())
    return make_error(ErrorKind::kUsage, "no item %s in --tasks, --lengths and -n", one_line(prediction.item).c_str());
  EI_ASSIGN_OR_RETURN(const Item item, source.make(*ref));
  if (prediction.texts.size() != item.turns.size())
    return make_error(ErrorKind::kUsage, "%zu predictions for %zu turns", prediction.texts.size(), item.turns.size());
  EI_ASSIGN_OR_RETURN(const ItemPrompt prompt, source.prompt(item));
  ItemResult result;
  result.item = item.id();
  result.task = item.task;
  result.length = item.length;
  result.index = item.index;
  result.depth = item.depth;
  result.method = prediction.method;
  result.predictions = prediction.texts;
  result.answers = item.turns[0].gold.answers;
  result.item_hash = item_hash(item, prompt);
  result.prompt_tokens = prompt.tokens();
  result.truncated = prompt.truncated;
  for (size_t i = 0; i < item.turns.size(); ++i) {
    result.turn_scores.push_back(score_of(*item.metric, item.turns[i].gold, item.scored(prediction.texts[i])));
    result.score += result.turn_scores.back() / static_cast<double>(item.turns.size());
  }
  return result;
}

}  // namespace

Result<std::vector<ItemResult>> score_predictions(const ItemSource& source, const std::string& text) {
  std::vector<ItemResult> results;
  std::istringstream stream(text);
  int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<Prediction> prediction = parse_prediction(line);
    Result<ItemResult> result = prediction.ok() ? score_prediction(source, *prediction) : prediction.error();
    if (!result.ok())
      return make_error(ErrorKind::kUsage, "line %lld of the predictions: %s", static_cast<long long>(number),
                        one_line(result.error().message).c_str());
    results.push_back(std::move(*result));
  }
  return results;
}

}  // namespace ei::eval
