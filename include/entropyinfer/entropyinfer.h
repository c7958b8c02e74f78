// All of the library: for C++ (17 and later) the classes, for C the functions they are made of.
#pragma once

#include "entropyinfer/c_api.h"
#ifdef __cplusplus
#include "entropyinfer/engine.h"
#include "entropyinfer/options.h"
#include "entropyinfer/result.h"
#include "entropyinfer/session.h"
#endif
