// Files whose bytes are in order and whose vocabulary is odd: what a bit flip seldom reaches.
#pragma once

#include <string>

#include "base/random.h"

namespace ei::fuzz {

std::string random_vocabulary_file(Random& random);

}  // namespace ei::fuzz
