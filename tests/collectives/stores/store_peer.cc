// SPDX-License-Identifier: Apache-2.0
// One side of a conversation of two stores; tests/interop/stores.py is the other, PyTorch's side.
// Usage: store_peer master|client PORT. Exit code 0: everything was as expected.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ddp/tcp_store.h>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;

void expect(bool right, const char* what) {
  if (right) return;
  std::printf("store_peer: not as it has to be: %s\n", what);
  std::exit(1);
}

void talk(const std::shared_ptr<ddp::Store>& shared) {
  ddp::Store& store = *shared;
  store.set("from ddp", std::string("\0\xff"
                                    "ddp",
                                    5));
  expect(store.get("from pytorch") == std::string("\0\xfepytorch", 9), "what PyTorch set");
  expect(store.get("replaced") == "twice", "what PyTorch set again");
  store.add("count", 2);
  store.compare_set("leader", "", "one");
  store.append("text", "ddp ");
  store.multi_set({{"ddp 1", "a"}, {"ddp 2", ""}});
  expect(store.multi_get({"pytorch 1", "pytorch 2"}) == std::vector<std::string>{"x", ""},
         "what PyTorch set at once");
  expect(store.check({"pytorch 1", "count"}), "that both are there");
  ddp::PrefixStore("in", shared).set("room", "ddp");
  store.set("ddp is done", "");
  store.wait({"pytorch is done"});
  expect(store.add("count", 0) == 5, "the count");
  expect(store.get("leader") == "one", "the leader");
  const std::string text = store.get("text");
  expect(text == "ddp pytorch " || text == "pytorch ddp ", "what both appended");
  expect(store.delete_key("from pytorch") && !store.check({"from pytorch"}), "what was deleted");
  expect(store.num_keys() > 5, "how many keys there are");
  store.set("ddp leaves", "");
  store.wait({"pytorch leaves"});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    talk(std::make_shared<ddp::TcpStore>(
        "127.0.0.1", static_cast<std::uint16_t>(std::atoi(argv[2])),
        ddp::TcpStoreOptions{
            .is_master = argv[1] == std::string("master"), .world_size = 2, .timeout = 100s}));
  } catch (const ddp::Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
