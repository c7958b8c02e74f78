// What a task plants in its text: statements in text order, one question, its answer. The wordings are the protocol
// the embedded model was trained on; answers that begin with a word begin with a space, as the text has it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace ei::eval {

struct Facts {
  std::vector<std::string> lines;  // in text order
  std::vector<size_t> gold;        // the lines the answer comes from
  std::string question;
  std::string answer;
  std::vector<std::string> gold_strings;  // the parts of the answer
};

struct FactsRequest {
  double depth = 0.5;        // where a single fact will stand: decides its rank among the lines
  int max_lines = 16;        // what the text has room for
  bool single = false;       // plant the asked fact alone, without others of its kind
  bool few = false;          // few others of its kind: several kinds share the text, as in docs/notes/selection.md
  bool new_wording = false;  // para: the wording that was held out of training
};

Facts make_numbers(Random& random, const FactsRequest& request);         // num
Facts make_codes(Random& random, const FactsRequest& request);           // hex
Facts make_register_lines(Random& random, const FactsRequest& request);  // line
Facts make_pass_key(Random& random, const FactsRequest& request);        // pass
Facts make_multi_values(Random& random, const FactsRequest& request);    // multi
Facts make_multi_queries(Random& random, const FactsRequest& request);   // mq
Facts make_chains(Random& random, const FactsRequest& request);          // var
Facts make_reverse(Random& random, const FactsRequest& request);         // rev
Facts make_list(Random& random, const FactsRequest& request);            // list
Facts make_para(Random& random, const FactsRequest& request);            // para
Facts make_absent(Random& random, const FactsRequest& request);          // none

// "a", "b" -> "a, b"
std::string join(const std::vector<std::string>& parts, std::string_view separator);

}  // namespace ei::eval
