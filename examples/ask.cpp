// ask MODEL TEXT: the model's answer, word by word. Read sparsely where the text is long.
#include <entropyinfer/entropyinfer.h>

#include <cstdio>
#include <cstdlib>

template <typename T>
T take(entropyinfer::Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(result.error().kind);
}

int main(int count, char** arguments) {
  if (count != 3) return std::puts("usage: ask MODEL TEXT") < 0 ? 1 : 2;
  const auto engine = take(entropyinfer::Engine::load({arguments[1]}));
  entropyinfer::SessionOptions options;
  options.method = "entropyinfer";
  auto session = take(engine.new_session(options));
  entropyinfer::GenerateOptions wanted;
  wanted.max_tokens = 32;
  wanted.on_text = [](std::string_view text) { return std::fwrite(text.data(), 1, text.size(), stdout) > 0; };
  take(session.generate(take(engine.tokenize(arguments[2])), wanted));
  std::puts("");
}
