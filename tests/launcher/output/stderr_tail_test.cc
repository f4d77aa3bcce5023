// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/recent_output.h"
#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

std::string tail_of(const std::string& text) {
  StderrTail tail;
  tail.feed(text);
  return tail.text();
}

TEST_CASE("the tail of a short text is the text") {
  CHECK(tail_of("").empty());
  CHECK(tail_of("a\nb\n") == "a\nb");
  CHECK(tail_of("a\n\nb") == "a\n\nb");
}

TEST_CASE("the tail is at most twenty lines") {
  StderrTail tail;
  for (int i = 0; i < 5000; ++i) tail.feed("line " + std::to_string(i) + "\n");
  std::string expected = "line 4980";
  for (int i = 4981; i < 5000; ++i) expected += "\nline " + std::to_string(i);
  CHECK(tail.text() == expected);
}

TEST_CASE("the tail keeps long lines that fit whole into 4 KiB, or the end of one") {
  const std::string long_line(3000, 'x');
  CHECK(tail_of(long_line + "\n" + long_line + "\nend\n") == long_line + "\nend");
  CHECK(tail_of(std::string(100'000, 'y')) == std::string(StderrTail::kBytes, 'y'));
}

TEST_CASE("only the last state of a progress line is kept") {
  CHECK(tail_of("\r1%\r2%\r3%\nboom\r\n\rafter\r") == "3%\nboom\nafter");
}

/// Some 200 bytes per line, as in PyTorch's frames.
std::string frames(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += "frame #" + std::to_string(i) + ": " + std::string(150, 'x') +
            "() + 0x9c3 (0x7fd3 in /v/libtorch.so)\n";
  }
  return text;
}

TEST_CASE("the frames of C++ that PyTorch writes below an error are left out, with their title") {
  const std::string raised =
      "Exception raised from run at /pytorch/Watchdog.cpp:2125 (most recent call first):\n";
  const std::string what =
      "terminate called after throwing an instance of 'c10::DistBackendError'\n"
      "  what():  Process group watchdog thread terminated with exception: CUDA error: "
      "device-side assert triggered";
  CHECK(tail_of(what + "\n\n" + raised + frames(30) + "\n" + raised + frames(25) + "\n") == what);
  CHECK(tail_of("a\n" + frames(3) + "b\n") == "a\nb");
  CHECK(
      tail_of(what + "\n" +
              "frame #0: c10::Error::Error(c10::SourceLocation, std::__cxx11::basic_string<char>) "
              "+ 0x9d "
              "(0x7fd4af37305d in /opt/torch/lib/libc10.so)\n"
              "frame #6: <unknown function> + 0xecdb4 (0x7fd47f8ecdb4 in /lib/libstdc++.so.6)\n") ==
      what);
  CHECK(tail_of(std::string(5'000, 'w') + "\n" + frames(1)) ==
        std::string(StderrTail::kBytes, 'w'));
  // The same below an exception of Python's.
  CHECK(tail_of("[rank0]: RuntimeError: CUDA error\n[rank0]: " + raised +
                "[rank0]: " + frames(1)) == "[rank0]: RuntimeError: CUDA error");
  CHECK(tail_of("[rank0]: frame by frame\n[rank0]:\nframes\n") ==
        "[rank0]: frame by frame\n[rank0]:\nframes");
}

TEST_CASE("frames of C++ are the tail if there is nothing else") {
  CHECK(tail_of(frames(2)) + "\n" == frames(2));
  CHECK(tail_of("lost\n" + frames(200)).starts_with("frame #"));
}

}  // namespace
}  // namespace ddprun::launcher
