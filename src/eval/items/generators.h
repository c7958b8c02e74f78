// The generators behind the names of items/registry.h: pure functions of a request.
#pragma once

#include "eval/items/item.h"

namespace ei::eval {

// RULER's needles: keys with values, asked for one or several. Which texts, keys and values a task has is told by its
// name, as RULER tells them.
Result<Item> make_needle_item(const ItemRequest& request);
// RULER's others.
Result<Item> make_variables_item(const ItemRequest& request);       // vt
Result<Item> make_common_words_item(const ItemRequest& request);    // cwe
Result<Item> make_frequent_words_item(const ItemRequest& request);  // fwe
Result<Item> make_documents_item(const ItemRequest& request);       // qa

// InfiniteBench's and LongEval's.
Result<Item> make_passkey_item(const ItemRequest& request);
Result<Item> make_number_string_item(const ItemRequest& request);
Result<Item> make_pairs_item(const ItemRequest& request);  // kv_retrieval
Result<Item> make_math_item(const ItemRequest& request);   // math_find
Result<Item> make_lines_item(const ItemRequest& request);  // lines

// Our own kinds (eval/task_kind.h), by the name of the request; quote asks for more than that kind does.
Result<Item> make_kind_item(const ItemRequest& request);
Result<Item> make_quote_item(const ItemRequest& request);
// Several facts in one text, a question about each in a turn of its own.
Result<Item> make_chat_item(const ItemRequest& request);

}  // namespace ei::eval
