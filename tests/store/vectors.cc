// SPDX-License-Identifier: Apache-2.0
#include "tests/store/vectors.h"

#include <fstream>
#include <sstream>

#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/store/bytes.h"

namespace ddprun::store {

StoreVectors::StoreVectors() {
  std::ifstream file(tests::source_path("tests/data/tcpstore-vectors.tsv"));
  REQUIRE(file);
  std::string line;
  std::getline(file, line);  // the heading
  while (std::getline(file, line)) {
    std::istringstream columns(line);
    std::string dialect, id, direction, digits;
    columns >> dialect >> id >> direction >> digits;
    rows_[id] = bytes::hex(digits);
  }
}

const std::string& StoreVectors::operator[](const std::string& id) {
  INFO(id);
  REQUIRE(rows_.contains(id));
  used_.insert(id);
  return rows_[id];
}

std::vector<std::string> StoreVectors::unused() const {
  std::vector<std::string> ids;
  for (const auto& [id, row] : rows_) {
    if (!used_.contains(id)) ids.push_back(id);
  }
  return ids;
}

std::vector<Exchange> current_conversation(StoreVectors& v) {
  using namespace bytes;
  return {
      {v["N01"], ""},
      {v["N02"], v["N02r"]},
      {v["N10"], ""},
      {v["N11"], ""},
      {v["N12"], v["N12r"]},
      {v["N13"], v["N13r"]},
      {get("/e"), v["N14r"]},
      {v["N15"], v["N15r"]},
      {v["N16"], v["N16r"]},
      {get("/c"), v["N17r"]},
      {v["N20"], v["N20r"]},
      {v["N18"], integer(1)},
      {v["N21"], v["N21r"]},
      {v["N22"], v["N22r"]},
      {v["N23"], v["N23r"]},
      {v["N24"], v["N24r"]},
      {v["N25"], v["N24r"]},
      {v["N26"], v["N26r"]},
      {v["N27"], v["N27r"]},
      {v["N28"], v["N28r"]},
      {v["N29"], kYes},
      {v["N30"], kStop},
      {v["N31"], v["N31r"]},
      {v["N32"], ""},
      {append("/ap", "llo"), ""},
      {v["N33"], ""},
      {v["N34"], v["N34r"]},
      {v["N35"], ""},
      {v["N40"], ""},
      {push("/q", "Q2"), ""},
      {v["N41"], v["N41r"]},
      {v["N42"], v["N42r"]},
      {v["N42"], integer(1) + text("Q2")},
      {v["N42"], v["N43r"]},
      {v["N46"], kCanceled},
      {v["N50"], ""},
      {get("/pfx/k"), text("v")},
      {v["N51"], ""},
      {get("/pfx/in/k"), text("v")},
  };
}

std::vector<Exchange> legacy_conversation(StoreVectors& v) {
  using namespace bytes;
  const auto legacy_get = [](std::string_view key) { return "\2" + text(key); };
  return {
      {v["O10"], ""},
      {v["O11"], ""},
      {v["O12"], v["O12r"]},
      {v["O13"], v["O13r"]},
      {legacy_get("/e"), v["O14r"]},
      {v["O15"], v["O15r"]},
      {v["O16"], v["O16r"]},
      {legacy_get("/c"), v["O17r"]},
      {v["O20"], v["O20r"]},
      {v["O18"], integer(1)},
      {v["O21"], v["O21r"]},
      {v["O22"], v["O22r"]},
      {v["O23"], v["O23r"]},
      {v["O24"], v["O24r"]},
      {v["O25"], v["O24r"]},
      {v["O26"], v["O26r"]},
      {v["O27"], kYes},
      {v["O30"], kStop},
      {v["O50"], ""},
      {legacy_get("/pfx/k"), text("v")},
      {v["O51"], ""},
      {legacy_get("/pfx/in/k"), text("v")},
  };
}

}  // namespace ddprun::store
