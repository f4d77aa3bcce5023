// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/line_splitter.h"

#include <string>

#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

/// A file, or the screen of a terminal.
struct Page {
  explicit Page(bool terminal = false) : lines(terminal) {}

  std::string text() const { return std::string(lines.pending()); }

  LineQueue lines;
};

std::string split(const std::string& bytes, const std::string& prefix = "[0] ") {
  Page page;
  LineSplitter splitter(prefix, Buffering::line);
  splitter.feed(bytes, page.lines);
  splitter.finish(page.lines);
  return page.text();
}

/// The same bytes, one at a time.
std::string split_bytewise(const std::string& bytes) {
  Page page;
  LineSplitter splitter("[0] ", Buffering::line);
  for (const char byte : bytes) splitter.feed({&byte, 1}, page.lines);
  splitter.finish(page.lines);
  return page.text();
}

TEST_CASE("every line gets the prefix, also an empty one") {
  CHECK(split("a\n\nb\n") == "[0] a\n[0] \n[0] b\n");
  CHECK(split("").empty());
}

TEST_CASE("a last line without newline is completed") {
  CHECK(split("a\nb") == "[0] a\n[0] b\n");
  CHECK(split("a", "") == "a\n");
}

TEST_CASE("any byte passes unchanged, also NUL") {
  const std::string bytes("a\0b\xff\x80\x1b[0m\tc\n", 12);
  CHECK(split(bytes) == "[0] " + bytes);
}

TEST_CASE("the boundaries of reads do not matter") {
  const std::string bytes = GENERATE(as<std::string>(), "one\ntwo\n\nthree", "a\r\nb\r\n\r\nc",
                                     "\r1%\r2%\ndone\n", "1%\r2%\r\n", "\r", "\n", "x\r");
  CHECK(split_bytewise(bytes) == split(bytes));
}

TEST_CASE("an unfinished line is kept until the rest arrives") {
  Page page;
  LineSplitter splitter("[0] ", Buffering::line);
  splitter.feed("hel", page.lines);
  CHECK(page.text().empty());
  splitter.feed("lo\nwor", page.lines);
  CHECK(page.text() == "[0] hello\n");
}

TEST_CASE("lines of two workers are never mixed") {
  Page page;
  LineSplitter zero("[0] ", Buffering::line);
  LineSplitter one("[1] ", Buffering::line);
  zero.feed("aa", page.lines);
  one.feed("bb", page.lines);
  zero.feed("AA\n", page.lines);
  one.feed("BB\n", page.lines);
  CHECK(page.text() == "[0] aaAA\n[1] bbBB\n");
}

TEST_CASE("a line of 1 MiB stays whole") {
  const std::string line(kMaxLine, 'x');
  CHECK(split(line + "\ny\n") == "[0] " + line + "\n[0] y\n");
}

TEST_CASE("a line longer than 1 MiB is split with a mark") {
  const std::string line(kMaxLine, 'x');
  const std::string mark(kSplitMark);
  CHECK(split(line + "yz\n") == "[0] " + line + mark + "[0] yz\n");
  CHECK(split(line + line + "z") == "[0] " + line + mark + "[0] " + line + mark + "[0] z\n");
}

TEST_CASE("CRLF ends a line like LF") {
  CHECK(split("a\r\n\r\nb\r\n") == "[0] a\r\n\r\n[0] b\r\n");
}

TEST_CASE("a progress line is passed on before its newline") {
  Page page;
  LineSplitter splitter("[0] ", Buffering::line);
  splitter.feed("\r10%", page.lines);
  CHECK(page.text() == "\r[0] 10%");
  splitter.feed("\r20%", page.lines);
  CHECK(page.text() == "\r[0] 10%\r[0] 20%");
  splitter.feed("\n", page.lines);
  CHECK(page.text() == "\r[0] 10%\r[0] 20%\n");
}

TEST_CASE("progress that ends in a return is passed on immediately") {
  Page page;
  LineSplitter splitter("[0] ", Buffering::line);
  splitter.feed("10%\r", page.lines);
  CHECK(page.text() == "[0] 10%\r");
  splitter.feed("20%\r", page.lines);
  CHECK(page.text() == "[0] 10%\r[0] 20%\r");
}

TEST_CASE("another worker's line ends an unfinished progress line") {
  Page page;
  LineSplitter zero("[0] ", Buffering::line);
  LineSplitter one("[1] ", Buffering::line);
  zero.feed("\r10%", page.lines);
  one.feed("epoch\n", page.lines);
  CHECK(page.text() == "\r[0] 10%\n[1] epoch\n");

  SECTION("the next progress starts afresh") {
    zero.feed("\r20%", page.lines);
    CHECK(page.text() == "\r[0] 10%\n[1] epoch\n\r[0] 20%");
  }
  SECTION("the rest of a torn piece gets the prefix again") {
    zero.feed(" of 9\n", page.lines);
    CHECK(page.text() == "\r[0] 10%\n[1] epoch\n[0]  of 9\n");
  }
  SECTION("its own newline is not written twice") {
    zero.feed("\nnext\n", page.lines);
    CHECK(page.text() == "\r[0] 10%\n[1] epoch\n[0] next\n");
  }
  SECTION("its end adds nothing") {
    zero.finish(page.lines);
    CHECK(page.text() == "\r[0] 10%\n[1] epoch\n");
  }
}

TEST_CASE(
    "progress lines of two workers overwrite each other on a terminal, and are lines elsewhere") {
  const bool terminal = GENERATE(true, false);
  Page page(terminal);
  LineSplitter zero("[0] ", Buffering::line);
  LineSplitter one("[1] ", Buffering::line);
  zero.feed("\r10%", page.lines);
  one.feed("\r7%", page.lines);
  CHECK(page.text() == (terminal ? "\r[0] 10%\r\033[K\r[1] 7%" : "\r[0] 10%\n\r[1] 7%"));
}

TEST_CASE("on a terminal a progress line is shown again below other workers' lines") {
  Page page(true);
  LineSplitter zero("[0] ", Buffering::line);
  LineSplitter one("[1] ", Buffering::line);
  zero.feed("\r10%", page.lines);
  zero.feed(" of 9", page.lines);
  one.feed("epoch 1\nepoch 2\n", page.lines);
  std::string expected = "\r[0] 10% of 9\r\033[K[1] epoch 1\n[1] epoch 2\n";
  CHECK(page.text() == expected);
  page.lines.show_progress();
  expected += "\r[0] 10% of 9";
  CHECK(page.text() == expected);
  page.lines.show_progress();
  CHECK(page.text() == expected);

  SECTION("and continues") {
    zero.feed("!\r[2", page.lines);
    CHECK(page.text() == expected + "!\r[0] [2");
  }
  SECTION("and ends unchanged") {
    one.feed("epoch 3\n", page.lines);
    zero.feed("\n", page.lines);
    CHECK(page.text() == expected + "\r\033[K[1] epoch 3\n\r[0] 10% of 9\n");
    page.lines.show_progress();
    CHECK(page.text().ends_with("9\n"));
  }
  SECTION("and stays when its worker ends") {
    one.feed("\r7%\r", page.lines);
    zero.finish(page.lines);
    expected += "\r\033[K\r[1] 7%\r\r\033[K\r[0] 10% of 9\n";
    CHECK(page.text() == expected);
    page.lines.show_progress();
    CHECK(page.text() == expected + "\r[1] 7%\r");
  }
}

TEST_CASE("a prompt on a terminal is not erased by another worker's progress") {
  Page page(true);
  LineSplitter zero("[0] ", Buffering::line);
  LineSplitter one("[1] ", Buffering::line);
  zero.feed("name? ", page.lines);
  zero.pass_on_kept(page.lines);
  one.feed("\r7%", page.lines);
  CHECK(page.text() == "[0] name? \n\r[1] 7%");
}

TEST_CASE("both streams of a single worker are one stream") {
  Page page(GENERATE(true, false));
  LineSplitter out("", Buffering::none);
  LineSplitter err("", Buffering::none);
  err.feed("50%", page.lines);
  out.feed("x\n", page.lines);
  err.feed("\n\ry", page.lines);
  out.feed("z", page.lines);
  out.finish(page.lines);
  err.feed("!", page.lines);
  err.finish(page.lines);
  CHECK(page.text() == "50%x\n\n\ryz!");
}

TEST_CASE("the output of a single worker is passed on immediately, also prompts") {
  Page page;
  LineSplitter splitter("", Buffering::none);
  splitter.feed("name? ", page.lines);
  CHECK(page.text() == "name? ");
  splitter.feed("hello\n\n\rx", page.lines);
  CHECK(page.text() == "name? hello\n\n\rx");
  splitter.finish(page.lines);
  CHECK(page.text() == "name? hello\n\n\rx");
}

TEST_CASE(
    "nothing is added to a single worker's output, but other lines after it begin a new line") {
  Page page;
  const std::string longest(3 * kMaxLine, 'x');
  {
    LineSplitter splitter("", Buffering::none);
    splitter.feed(longest, page.lines);
    splitter.feed(std::string("\0y", 2), page.lines);
    splitter.finish(page.lines);
  }
  const std::string expected = longest + std::string("\0y", 2);
  CHECK((page.text() == expected));
  page.lines.end_line();
  LineSplitter next("", Buffering::none);
  next.feed("next", page.lines);
  CHECK((page.text() == expected + "\nnext"));
}

TEST_CASE("the beginning of a line can be shown early, once, and then its rest") {
  Page page;
  LineSplitter zero("[0] ", Buffering::line);
  CHECK_FALSE(zero.keeps_text());
  zero.feed("done\nname? ", page.lines);
  CHECK(zero.keeps_text());
  zero.pass_on_kept(page.lines);
  CHECK_FALSE(zero.keeps_text());
  CHECK(page.text() == "[0] done\n[0] name? ");
  zero.feed("hello\nnext\nkept", page.lines);
  CHECK(page.text() == "[0] done\n[0] name? hello\n[0] next\n");
  zero.finish(page.lines);
  CHECK(page.text() == "[0] done\n[0] name? hello\n[0] next\n[0] kept\n");
}

TEST_CASE("the rest of a line that was shown early and then ended by another worker is a line") {
  Page page;
  LineSplitter zero("[0] ", Buffering::line);
  LineSplitter one("[1] ", Buffering::line);
  zero.feed("loss ", page.lines);
  zero.pass_on_kept(page.lines);
  one.feed("other\n", page.lines);
  zero.feed("0.", page.lines);
  CHECK(page.text() == "[0] loss \n[1] other\n");
  zero.feed("5\n", page.lines);
  CHECK(page.text() == "[0] loss \n[1] other\n[0] 0.5\n");

  zero.feed("alone", page.lines);
  zero.pass_on_kept(page.lines);
  one.feed("other\n", page.lines);
  const std::string before = page.text();
  zero.feed("\nnext\n", page.lines);  // its newline is already there
  CHECK(page.text() == before + "[0] next\n");
}

TEST_CASE("a queue keeps the order of bytes when written in pieces") {
  LineQueue queue(false);
  std::string expected;
  std::string written;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = std::to_string(i) + '\n';
    queue.append(text);
    expected += text;
    const size_t piece = std::min<size_t>(queue.size(), static_cast<size_t>(i) % 11);
    written += queue.pending().substr(0, piece);
    queue.consume(piece);
  }
  written += queue.pending();
  CHECK(written == expected);
}

}  // namespace
}  // namespace ddprun::launcher
