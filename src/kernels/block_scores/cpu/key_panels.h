// Where keys of 8 bits and the bounds of super-blocks lie inside a KeyIndex of the CPU.
#pragma once

#include "kernels/block_scores/block_scores.h"

namespace ei::kernels {

KeyIndexBytes key_panel_bytes(const KeyIndexShape& shape, int64_t tokens);
KeyPanels key_panels(const KeyIndex& index);

}  // namespace ei::kernels
