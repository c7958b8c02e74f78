// CallStyle: how a model's template writes the calls of tools, found by having it write one.
#pragma once

#include "text/chat_template.h"

namespace ei::server {

// How calls look in the text of an answer.
enum class CallStyle {
  kNone,     // no tools
  kTagged,   // <tool_call>{"name", "arguments"}</tool_call>: Qwen, Hermes and many others
  kPlain,    // {"name", "parameters"} and nothing else: Llama 3
  kList,     // [TOOL_CALLS][{"name", "arguments"}]: Mistral
  kWrapped,  // {"tool_call": ...} or {"response": ...}: templates that know no tools, or write calls in another way
};

// kWrapped where the template does not show the tools it is given, fails, or writes a call as none of the others.
CallStyle call_style_of(const text::ChatTemplate& chat);

}  // namespace ei::server
