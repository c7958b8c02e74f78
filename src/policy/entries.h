// One line for every method: the function of its source file that says what it offers. registry.cpp lists them.
#pragma once

#include "policy/registry.h"

namespace ei::policy {

Entry full_entry();
Entry entropyinfer_entry();
Entry growth_entry();
Entry level_entry();
Entry habit_entry();
Entry fixed_entry();
Entry latent_entry();
Entry snapkv_entry();
Entry adakv_entry();
Entry entropy_kv_entry();
Entry pyramid_entry();
Entry ada_pyramid_entry();
Entry tova_entry();
Entry h2o_entry();
Entry knorm_entry();
Entry keydiff_entry();
Entry expected_entry();
Entry random_kv_entry();
Entry quest_entry();
Entry streaming_entry();
Entry triangle_entry();
Entry cumulative_entry();
Entry random_prefill_entry();

}  // namespace ei::policy
