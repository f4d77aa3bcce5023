// SPDX-License-Identifier: Apache-2.0
#include "cli/manual/page.h"

#include "tests/catch.h"
#include "tests/contains.h"

using namespace ddprun;
using tests::contains;

TEST_CASE("a manual page's source escapes all text that roff would interpret") {
  const cli::Page page{"ddprun-x",
                       "does x-y",
                       {"ddprun x [--a]"},
                       {{"", "", ".TH is no request here\n\na\\b 'c' \"d\" ^ ~ `e`"},
                        {"", "With \"quotes\"", "", {{"--a_b", ".py\nor not"}}}}};
  const std::string source = cli::man_page(page, "1.2");

  CHECK(contains(source, ".TH \"DDPRUN\\-X\" \"1\" \"\" \"ddprun 1.2\""));
  CHECK(contains(source, "\nddprun\\-x \\- does x\\-y\n"));
  CHECK(contains(source, "\nddprun x [\\-\\-a]\n"));
  CHECK(contains(source, "\n\\&.TH is no request here\n.PP\n"));
  CHECK(contains(source, "\na\\eb \\(aqc\\(aq \\(dqd\\(dq \\(ha \\(ti \\(gae\\(ga\n"));
  CHECK(contains(source, ".SH \"WITH \\(dqQUOTES\\(dq\"\n"));
  CHECK(contains(source, ".TP\n\\fB\\-\\-a_b\\fR\n\\&.py\n"));
}

TEST_CASE("on a terminal, text is wrapped and a command line is not") {
  const std::string line(90, 'x');
  const std::string text = cli::plain_text(cli::Section{
      "", "Title", std::string(79, 'a') + " b c\n\n    " + line, {{"--flag N", "Its text."}}});

  CHECK(text == "Title:\n" + std::string(79, 'a') + "\nb c\n\n    " + line +
                    "\n  --flag N\n      Its text.\n");
}
