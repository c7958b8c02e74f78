// The program: everything is in cli/.
#include "cli/command.h"

int main(int count, char** arguments) { return ei::cli::main_with_arguments(count, arguments); }
