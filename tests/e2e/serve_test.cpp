// serve as a program: it says where it listens, and a signal ends it in order.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <regex>
#include <thread>

#include "process.h"

namespace ei::e2e {
namespace {

TEST(Serve, ListensSaysWhereAndEndsWithASignal) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Process process({.arguments = {"serve", "--port", "0", "--threads", "1"}});
    ASSERT_TRUE(process.wait_for_err("listening on http://127.0.0.1:"));
    process.send(signal);
    const Outcome outcome = process.finish();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("stopping"), std::string::npos);
  }
}

uint16_t free_port() {
  const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  EXPECT_EQ(::bind(probe, reinterpret_cast<const sockaddr*>(&at), size), 0);
  EXPECT_EQ(::getsockname(probe, reinterpret_cast<sockaddr*>(&at), &size), 0);
  ::close(probe);
  return ntohs(at.sin_port);
}

// The whole answer, head and body.
std::string ask(uint16_t port, const std::string& body) {
  const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(connection, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  const std::string request =
      "POST /completion HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
      "\r\n\r\n" + body;
  EXPECT_EQ(::send(connection, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  std::string answer;
  char part[4096];
  for (ssize_t got = 0; (got = ::recv(connection, part, sizeof part, 0)) > 0;)
    answer.append(part, static_cast<size_t>(got));
  ::close(connection);
  return answer;
}

std::string first_match(const std::string& text, const std::string& pattern) {
  std::smatch found;
  return std::regex_search(text, found, std::regex(pattern)) ? found[1].str() : "";
}

TEST(Serve, AKilledServerHasLeftWhatItReadToTheNext) {
  const std::string folder = write_file("held", "") + ".texts";
  std::string prompt;
  for (int i = 0; i < 400; ++i) prompt += "The " + std::to_string(i * 37 % 101) + " boats came back. ";
  const std::string body = R"({"temperature":0,"n_predict":24,"ignore_eos":true,"prompt":")" + prompt + "\"}";
  const auto has_file = [&] {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
      if (entry.path().extension() == ".eikv") return true;
    return false;
  };
  std::string texts[2];
  for (std::string& text : texts) {
    const uint16_t port = free_port();
    Process process({.arguments = {"serve", "--port", std::to_string(port), "--cache-path", folder}});
    ASSERT_TRUE(process.wait_for_err("listening on http://127.0.0.1:"));
    const std::string answer = ask(port, body);
    text = first_match(answer, R"re("content":"((?:[^"\\]|\\.)*)")re");
    const std::string read = first_match(answer, R"("prompt_n":([0-9]+))");
    EXPECT_EQ(read == "1", &text == &texts[1]) << read << " tokens were read";
    for (int i = 0; i < 1000 && !has_file(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(has_file());
    process.send(SIGKILL);
    EXPECT_EQ(process.finish().signal, SIGKILL);
  }
  EXPECT_FALSE(texts[0].empty());
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(Serve, AHangupLosesNothingAndOpensTheLogAnew) {
  const uint16_t port = free_port();
  const std::string log = write_file("access", "") + ".log";
  Process process(
      {.arguments = {"serve", "--port", std::to_string(port), "--threads", "1", "--access-log", log, "-n", "600"}});
  ASSERT_TRUE(process.wait_for_err("listening on http://127.0.0.1:"));
  const std::string body = R"({"temperature":0,"ignore_eos":true,"prompt":"The key is 7. The key is"})";
  const std::string undisturbed = ask(port, body);
  std::string answer;
  std::thread client([&] { answer = ask(port, body); });
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    process.send(SIGHUP);
  }
  client.join();
  const std::string text = R"re("content":"((?:[^"\\]|\\.)*)")re";
  EXPECT_FALSE(first_match(answer, text).empty());
  EXPECT_EQ(first_match(answer, text), first_match(undisturbed, text));
  std::filesystem::rename(log, log + ".1");
  process.send(SIGHUP);
  for (int i = 0; i < 500 && !std::filesystem::exists(log); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ask(port, R"({"n_predict":1,"prompt":"a"})");
  process.send(SIGTERM);
  EXPECT_EQ(process.finish().code, 0);
  EXPECT_GT(std::filesystem::file_size(log), 20u);
  EXPECT_GT(std::filesystem::file_size(log + ".1"), 20u);
}

TEST(Serve, RefusesWhatItCannotDo) {
  const std::vector<std::vector<std::string>> bad = {{"serve", "--host", "not an address"},
                                                     {"serve", "--port", "70000"},
                                                     {"serve", "--api-key-file", "/nowhere/keys"},
                                                     {"serve", "--method", "full", "--kv-budget", "100"},
                                                     {"serve", "--chat-template", "no template"}};
  for (const std::vector<std::string>& arguments : bad) {
    const Outcome outcome = Process({.arguments = arguments}).finish();
    EXPECT_EQ(outcome.code, 2) << arguments.back() << ": " << outcome.err;
  }
}

}  // namespace
}  // namespace ei::e2e
