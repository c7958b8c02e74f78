// ask_c MODEL TEXT: the same in C.
#include <entropyinfer/c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(EiStatus status) {
  if (status == EI_OK) return;
  fprintf(stderr, "%s\n", ei_last_error());
  exit((int)status);
}

static int show(void* user, const char* text, size_t bytes) {
  return fwrite(text, 1, bytes, (FILE*)user) == bytes ? 0 : 1;  // nonzero: enough
}

int main(int count, char** arguments) {
  if (count != 3) return puts("usage: ask_c MODEL TEXT") < 0 ? 1 : 2;
  EiEngine* engine = NULL;
  EiSession* session = NULL;
  const EiEngineOptions model = {.size = sizeof model, .model = arguments[1]};
  check(ei_engine_load(&model, &engine));
  check(ei_session_new(engine, NULL, &session));
  size_t num_tokens = 0;
  const size_t bytes = strlen(arguments[2]);
  check(ei_tokenize(engine, arguments[2], bytes, EI_ADD_BOS_EOS, NULL, 0, &num_tokens));
  int32_t* tokens = malloc(num_tokens * sizeof *tokens);
  if (tokens == NULL) return EI_MEMORY;
  check(ei_tokenize(engine, arguments[2], bytes, EI_ADD_BOS_EOS, tokens, num_tokens, &num_tokens));
  const EiGenerateOptions wanted = {.size = sizeof wanted, .max_tokens = 32, .on_text = show, .user = stdout};
  check(ei_generate(session, tokens, num_tokens, &wanted, NULL));
  puts("");
  free(tokens);
  ei_session_free(session);
  ei_engine_free(engine);
  return 0;
}
