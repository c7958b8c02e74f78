// Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ei::text {

enum class Utf8 { kCharacter, kIncomplete, kInvalid };

// What starts at text[0] (text is not empty): a whole character, a character whose tail is missing, or bytes that no
// character begins with. `length` is the size of the character or of the bytes to skip.
Utf8 utf8_step(std::string_view text, size_t* length);

// On false, `bad_offset` (when given) is the first byte that belongs to no character.
bool valid_utf8(std::string_view text, size_t* bad_offset = nullptr);

// Takes every complete character off the front of `bytes`; invalid bytes become U+FFFD, an unfinished character stays.
std::string take_complete_utf8(std::string& bytes);

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace ei::text
