#include "text/named_templates.h"

namespace ei::text {

namespace {
constexpr NamedTemplate kNamed[] = {
    {"chatml",
     "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
     "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"command-r",
     "{% for message in messages %}<|START_OF_TURN_TOKEN|>"
     "{% if message['role'] == 'system' %}<|SYSTEM_TOKEN|>"
     "{% elif message['role'] == 'user' %}<|USER_TOKEN|>{% else %}<|CHATBOT_TOKEN|>{% endif %}"
     "{{ message['content'] | trim }}<|END_OF_TURN_TOKEN|>{% endfor %}"
     "{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}"},
    // Knows no system message: it goes in front of the first question.
    {"gemma",
     "{% set ns = namespace(system='') %}{% for message in messages %}{% if message['role'] == 'system' %}"
     "{% set ns.system = ns.system + (message['content'] | trim) %}{% else %}"
     "<start_of_turn>{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n"
     "{% if ns.system and message['role'] != 'assistant' %}{{ ns.system }}\n\n{% set ns.system = '' %}{% endif %}"
     "{{ message['content'] | trim }}<end_of_turn>\n{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"},
    {"llama2-sys",
     "{% set ns = namespace(open=false) %}{% for message in messages %}"
     "{% if not ns.open %}{{ '[INST] ' }}{% set ns.open = true %}{% endif %}"
     "{% if message['role'] == 'system' %}<<SYS>>\n{{ message['content'] }}\n<</SYS>>\n\n"
     "{% elif message['role'] == 'user' %}{{ message['content'] }} [/INST]"
     "{% else %}{{ message['content'] }}</s>{% set ns.open = false %}{% endif %}{% endfor %}"},
    {"llama3",
     "{% for message in messages %}<|start_header_id|>{{ message['role'] }}<|end_header_id|>\n\n"
     "{{ message['content'] | trim }}<|eot_id|>{% endfor %}"
     "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"},
    {"mistral-v3",
     "{% set ns = namespace(open=false) %}{% for message in messages %}"
     "{% if not ns.open %}{{ '[INST] ' }}{% set ns.open = true %}{% endif %}"
     "{% if message['role'] == 'system' %}{{ message['content'] }}\n\n"
     "{% elif message['role'] == 'user' %}{{ message['content'] }}[/INST]"
     "{% else %}{{ ' ' }}{{ message['content'] | trim }}</s>{% set ns.open = false %}{% endif %}{% endfor %}"},
    {"zephyr",
     "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|endoftext|>\n{% endfor %}"
     "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"},
};
}  // namespace

std::span<const NamedTemplate> named_templates() { return kNamed; }

std::optional<std::string> named_template(std::string_view name) {
  for (const NamedTemplate& one : kNamed)
    if (one.name == name) return std::string(one.source);
  return std::nullopt;
}

std::string template_names() {
  std::string names;
  for (const NamedTemplate& one : kNamed) names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names;
}

}  // namespace ei::text
