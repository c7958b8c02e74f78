#include "model/model_file.h"

#include <utility>

#include "model/weights.h"

namespace ei::model {

Result<ModelFile> open_model(const std::string& path, const gguf::Overrides& overrides, bool copy) {
  EI_ASSIGN_OR_RETURN(gguf::File file, gguf::File::open(path, overrides, copy));
  Result<Config> config = read_config(file);
  if (!config.ok()) return file.named(config.error());
  if (const Status status = check_tensors(file, *config); !status.ok()) return file.named(status.error());
  return ModelFile{.file = std::move(file), .config = std::move(config).value()};
}

}  // namespace ei::model
