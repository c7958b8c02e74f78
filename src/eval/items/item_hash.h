// Tells items of the same name apart: a hash of what is read, what is right and how an answer is cut and scored.
#pragma once

#include <string>

#include "eval/items/item.h"
#include "eval/items/prompt.h"

namespace ei::eval {

// 16 hexadecimal digits.
std::string item_hash(const Item& item, const ItemPrompt& prompt);

}  // namespace ei::eval
