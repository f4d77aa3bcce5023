// SPDX-License-Identifier: Apache-2.0
// The main() of test programs that have none of their own.

int run_catch(int argc, char** argv);  // catch.cc

int main(int argc, char** argv) {
  return run_catch(argc, argv);
}
