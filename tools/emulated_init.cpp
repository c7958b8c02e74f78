// The first and only program of the emulated machine of tools/emulate_x86.sh: runs the commands of the file /commands,
// one a line, says how each ended and switches the machine off. Bochs takes a word on port 0x8900 for the switch.
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

// "NAME=value... program argument...": 128 plus the signal when it was killed, as a shell counts.
int run(const std::string& line) {
  const pid_t child = fork();
  if (child == 0) {
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    size_t first = 0;
    while (first < words.size() && words[first].find('=') != std::string::npos) putenv(words[first++].data());
    std::vector<char*> arguments;
    for (size_t i = first; i < words.size(); ++i) arguments.push_back(words[i].data());
    arguments.push_back(nullptr);
    if (arguments[0] != nullptr) execv(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int main() {
  for (const char* folder : {"/proc", "/sys", "/tmp"}) mkdir(folder, 0755);
  mount("proc", "/proc", "proc", 0, "");
  mount("sys", "/sys", "sysfs", 0, "");
  std::ifstream commands("/commands");
  for (std::string line; std::getline(commands, line);) {
    std::printf("emulated: %s\n", line.c_str());
    std::fflush(stdout);
    std::printf("emulated: exit %d\n", run(line));
    std::fflush(stdout);
  }
  std::printf("emulated: done\n");
  // Bochs keeps the end of what it writes to a file when it is switched off, so the end is nothing.
  for (int line = 0; line < 8192; ++line) std::printf("\n");
  std::fflush(stdout);
  sleep(2);  // until the serial line has said it
  if (iopl(3) == 0) {
    for (const char letter : std::string("Shutdown")) outb(static_cast<unsigned char>(letter), 0x8900);
  }
  while (true) pause();
}
