// For tests: a GPU that fails, as far as this process can see.
#pragma once

namespace ei::testing {

// Returns at once; soon afterwards every call of this process to its GPU fails, and no other does again.
void break_device();

}  // namespace ei::testing
