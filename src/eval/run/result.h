// What a method made of an item: one line of a results file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/acted.h"

namespace ei::eval {

struct ItemResult {
  std::string item;  // id
  std::string task;
  int64_t length = 0;
  int64_t index = 0;
  double depth = -1;
  std::string method;                    // label
  std::string item_hash;                 // of what was read and what is right (items/item_hash.h)
  std::string options;                   // what the method was, all defaults resolved; empty: another program
  double score = 0;                      // mean of the turns'
  std::vector<double> turn_scores;       // [turns]
  std::vector<std::string> predictions;  // [turns]
  std::vector<std::string> answers;      // of the first turn
  std::optional<double> likelihood;      // of choices: 1 when the right letter is the likeliest
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  bool truncated = false;
  Acted acted;
  double density = 1;
  int64_t kv_bytes = 0;       // held at the end
  int64_t kv_bytes_full = 0;  // had nothing been dropped
  int64_t kv_bytes_peak = 0;  // the most that was held
  double kv_kept = 1;         // share of the slots
  int64_t compressions = 0;
  int64_t compressed_tokens = 0;  // generated with a compressed cache
  double prompt_s = 0;
  double decode_s = 0;
  double compress_s = 0;  // of prompt_s, or of decode_s
};

std::string result_line(const ItemResult& result);  // one line of JSON, with its line break
Result<ItemResult> parse_result(const std::string& line);

}  // namespace ei::eval
