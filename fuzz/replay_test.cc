// SPDX-License-Identifier: Apache-2.0
// Replays the corpora of the fuzz targets as ordinary tests.
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/catch.h"
#include "tests/paths.h"

using Target = int(const std::uint8_t* data, std::size_t size);

// Each target's LLVMFuzzerTestOneInput, which CMakeLists.txt renames.
extern "C" {
Target agent_session_fuzz;
Target checkpoint_fuzz;
Target config_fuzz;
Target engine_fuzz;
Target error_file_fuzz;
Target etcd_fuzz;
Target file_log_fuzz;
Target first_record_fuzz;
Target frame_fuzz;
Target http_fuzz;
Target marked_lines_fuzz;
Target node_texts_fuzz;
Target order_fuzz;
Target output_fuzz;
Target peer_fuzz;
Target pmi1_fuzz;
Target protocol_fuzz;
Target sessions_fuzz;
Target store_replies_fuzz;
Target store_wire_fuzz;
Target template_message_fuzz;
Target tunnel_fuzz;
Target values_fuzz;
}

namespace {

/// Removes `text` from the front of `rest`.
bool remove(std::string_view& rest, std::string_view text) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

int number(std::string_view& rest, std::size_t digits, int base) {
  int value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + digits, value, base);
  if (error != std::errc()) throw std::runtime_error("not a number");
  rest.remove_prefix(end - rest.data());
  return value;
}

/// One byte of a quoted text, which may be escaped.
char byte(std::string_view& rest) {
  const char plain = rest.at(0);
  rest.remove_prefix(1);
  if (plain != '\\') return plain;
  const char escaped = rest.at(0);
  rest.remove_prefix(1);
  switch (escaped) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'x':
      return static_cast<char>(number(rest, 2, 16));
    default:
      return escaped;
  }
}

/// The bytes of an input without its name; fuzz/corpus.py describes the notation.
std::string input_of(std::string_view rest) {
  std::string input;
  while (remove(rest, " '")) {
    std::string text;
    while (!remove(rest, "'")) text += byte(rest);
    const int times = remove(rest, "*") ? number(rest, rest.size(), 10) : 1;
    for (int i = 0; i < times; ++i) input += text;
  }
  if (!rest.empty()) throw std::runtime_error("not a piece: " + std::string(rest));
  return input;
}

/// Runs a target on its corpus. A finding ends the process and is named on stderr.
void replay(const std::string& name, Target target) {
  std::ifstream corpus(ddprun::tests::source_path("fuzz/corpora/" + name + ".txt"));
  int replayed = 0;
  for (std::string line; std::getline(corpus, line);) {
    if (line.starts_with('#')) continue;
    const std::size_t end = line.find(' ');
    INFO(name << ": " << line.substr(0, end));
    const std::string input = input_of(std::string_view(line).substr(end));
    target(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    ++replayed;
  }
  CHECK(replayed > 30);
}

}  // namespace

TEST_CASE("the corpus of agent_session breaks nothing") {
  replay("agent_session", agent_session_fuzz);
}
TEST_CASE("the corpus of checkpoint breaks nothing") {
  replay("checkpoint", checkpoint_fuzz);
}
TEST_CASE("the corpus of config breaks nothing") {
  replay("config", config_fuzz);
}
TEST_CASE("the corpus of engine breaks nothing") {
  replay("engine", engine_fuzz);
}
TEST_CASE("the corpus of error_file breaks nothing") {
  replay("error_file", error_file_fuzz);
}
TEST_CASE("the corpus of etcd breaks nothing") {
  replay("etcd", etcd_fuzz);
}
TEST_CASE("the corpus of file_log breaks nothing") {
  replay("file_log", file_log_fuzz);
}
TEST_CASE("the corpus of first_record breaks nothing") {
  replay("first_record", first_record_fuzz);
}
TEST_CASE("the corpus of frame breaks nothing") {
  replay("frame", frame_fuzz);
}
TEST_CASE("the corpus of http breaks nothing") {
  replay("http", http_fuzz);
}
TEST_CASE("the corpus of marked_lines breaks nothing") {
  replay("marked_lines", marked_lines_fuzz);
}
TEST_CASE("the corpus of node_texts breaks nothing") {
  replay("node_texts", node_texts_fuzz);
}
TEST_CASE("the corpus of order breaks nothing") {
  replay("order", order_fuzz);
}
TEST_CASE("the corpus of output breaks nothing") {
  replay("output", output_fuzz);
}
TEST_CASE("the corpus of peer breaks nothing") {
  replay("peer", peer_fuzz);
}
TEST_CASE("the corpus of pmi1 breaks nothing") {
  replay("pmi1", pmi1_fuzz);
}
TEST_CASE("the corpus of protocol breaks nothing") {
  replay("protocol", protocol_fuzz);
}
TEST_CASE("the corpus of sessions breaks nothing") {
  replay("sessions", sessions_fuzz);
}
TEST_CASE("the corpus of store_replies breaks nothing") {
  replay("store_replies", store_replies_fuzz);
}
TEST_CASE("the corpus of store_wire breaks nothing") {
  replay("store_wire", store_wire_fuzz);
}
TEST_CASE("the corpus of template_message breaks nothing") {
  replay("template_message", template_message_fuzz);
}
TEST_CASE("the corpus of tunnel breaks nothing") {
  replay("tunnel", tunnel_fuzz);
}
TEST_CASE("the corpus of values breaks nothing") {
  replay("values", values_fuzz);
}
