// What goes wrong below the server costs the request it happens to, with a clear error, and nobody else.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <mutex>
#include <thread>

#include "server/test_server.h"
#include "support/embedded_engine.h"
#include "support/limited_backend.h"
#include "support/temp_folder.h"

namespace ei::server {
namespace {

using nlohmann::json;

json asked(const std::string& prompt, int tokens = 8) {
  return {{"prompt", prompt}, {"n_predict", tokens}, {"ignore_eos", true}};
}

// Lines to the log, and a server whose texts go to a folder.
struct Kept {
  ServerOptions options() {
    ServerOptions options = test_options();
    options.metrics = true;
    options.slot_save_path = folder.file("");
    options.scheduler.disk.folder = folder.file("texts");
    options.scheduler.disk.build = "test";
    options.scheduler.disk.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex);
      lines.push_back(line);
    };
    return options;
  }
  std::vector<std::string> wait_for_lines(size_t count) {
    for (int i = 0; i < 1000; ++i) {
      {
        const std::lock_guard lock(mutex);
        if (lines.size() >= count) return lines;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return {};
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> paths;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder.file("texts"), ignored))
      if (entry.path().extension() == ".eikv") paths.push_back(entry.path().string());
    return paths;
  }

  kv::TempFolder folder;
  std::mutex mutex;
  std::vector<std::string> lines;
};

// No file may grow beyond this, as on a full disk. For this process.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    previous_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit full{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, previous_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*previous_)(int) = SIG_DFL;
};

TEST(ServerFaults, AFullDiskCostsALineAndASaveItsAnswer) {
  EI_NEEDS_DEVICE();
  Kept kept;
  const TestServer server(kept.options());
  json body = asked(long_text(400));
  std::string first;
  {
    const FullDisk full(100000);
    const json answer = server.post("/completion", body).json();
    first = answer["content"];
    EXPECT_EQ(answer["tokens_predicted"], 8);
    const std::vector<std::string> lines = kept.wait_for_lines(1);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find("a text was not kept"), std::string::npos) << lines[0];
    const std::string slot = std::to_string(answer["id_slot"].get<int>());
    const Answer saved = server.post("/slots/" + slot + "?action=save", {{"filename", "one.bin"}});
    EXPECT_EQ(saved.status, 500);
    EXPECT_NE(saved.json()["error"]["message"].get<std::string>().find("one.bin"), std::string::npos) << saved.body;
    EXPECT_EQ(server.post("/completion", asked("a b c")).status, 200);
  }
  EXPECT_TRUE(kept.texts().empty());
  EXPECT_FALSE(std::filesystem::exists(kept.folder.file("one.bin"))) << "half a file is none";
  EXPECT_NE(server.get("/metrics").body.find("entropyinfer:disk_cache_failed_total 1\n"), std::string::npos);
  EXPECT_EQ(server.post("/completion", body).json()["content"], first) << "memory has it";
  // With room again it is kept.
  for (int i = 0; i < 1000 && kept.texts().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(kept.texts().size(), 1u);
}

TEST(ServerFaults, ADamagedFileIsReadAgainAsText) {
  EI_NEEDS_DEVICE();
  Kept kept;
  const json body = asked(long_text(400));
  std::string right;
  {
    const TestServer server(kept.options());
    right = server.post("/completion", body).json()["content"];
    for (int i = 0; i < 1000 && kept.texts().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_EQ(kept.texts().size(), 1u);
  std::vector<unsigned char> bytes = kv::read_all(kept.texts()[0]);
  bytes[bytes.size() - 5000] ^= 4;  // a row: only who loads it notices
  kv::write_all(kept.texts()[0], bytes);
  const TestServer server(kept.options());
  const json answer = server.post("/completion", body).json();
  EXPECT_EQ(answer["content"], right);
  EXPECT_EQ(answer["timings"]["cache_n"], 0);
  const std::vector<std::string> lines = kept.wait_for_lines(1);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("passed over"), std::string::npos) << lines[0];
  EXPECT_EQ(server.post("/completion", body).json()["timings"]["prompt_n"], 1);
}

TEST(ServerFaults, NoMemoryForOneRequestIsItsErrorAndNobodyElses) {
  EI_NEEDS_DEVICE();
  const auto memory = std::make_shared<LimitedBackend::Memory>();
  EngineOptions loading;
  loading.make_backend = [&](const BackendOptions& options) -> Result<std::unique_ptr<Backend>> {
    EI_ASSIGN_OR_RETURN(auto inner, create_backend(test_device(), options));
    return std::unique_ptr<Backend>(std::make_unique<LimitedBackend>(std::move(inner), memory));
  };
  const std::unique_ptr<Engine> engine = load_embedded(loading);
  ASSERT_NE(engine, nullptr);
  const TestServer server(test_options(), *engine);
  json neighbour = asked(long_text(20, 5), 60);
  neighbour["cache_prompt"] = false;
  const std::string right = server.post("/completion", neighbour).json()["content"];
  // What is held makes room for who comes.
  ASSERT_EQ(server.post("/completion", asked(long_text(700, 3), 1)).status, 200);
  memory->limit = memory->live + (int64_t{3} << 20);

  // It has its memory when its first words come.
  Client other(server.port());
  neighbour["stream"] = true;
  other.send(request_text("POST", "/completion", neighbour.dump()));
  other.read_until("data:");
  const Answer refused = server.post("/completion", asked(long_text(2500)));
  std::string beside;
  for (const json& event : other.read().events()) beside += event.value("content", "");
  EXPECT_EQ(refused.status, 503) << refused.body.substr(0, 300);
  EXPECT_EQ(refused.json()["error"]["type"], "unavailable_error");
  EXPECT_NE(refused.json()["error"]["message"].get<std::string>().find("memory"), std::string::npos) << refused.body;
  EXPECT_EQ(beside, right);
  // In a stream the error is its last event.
  json streamed = asked(long_text(2500));
  streamed["stream"] = true;
  const Answer stream = server.post("/completion", streamed);
  EXPECT_NE(stream.body.find("memory"), std::string::npos) << stream.body.substr(0, 300);
  neighbour["stream"] = false;
  EXPECT_EQ(server.post("/completion", neighbour).json()["content"], right);
  EXPECT_EQ(server.get("/slots").json()[0]["cache"]["texts"], 0) << "texts held for others went first";
  memory->limit = int64_t{1} << 60;
  EXPECT_EQ(server.post("/completion", asked(long_text(900), 1)).status, 200) << "there is memory again";
}

}  // namespace
}  // namespace ei::server
