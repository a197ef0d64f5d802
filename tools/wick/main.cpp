#include "wick/program.h"

int main(int argc, char** argv) { return wick::program(argc, argv); }
