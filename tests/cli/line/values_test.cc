// SPDX-License-Identifier: Apache-2.0
#include "cli/line/values.h"

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cli/line/rdzv_conf.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

TEST_CASE("a time is a number of seconds, or has a unit right after it") {
  const auto [text, time] = GENERATE(table<const char*, milliseconds>({{"0", 0ms},
                                                                       {"30", 30s},
                                                                       {"2.5", 2500ms},
                                                                       {"500ms", 500ms},
                                                                       {"10s", 10s},
                                                                       {"0.25s", 250ms},
                                                                       {"5m", 5min},
                                                                       {"5min", 5min},
                                                                       {"1.5h", 90min},
                                                                       {"1d", 24h},
                                                                       {"1000d", 24000h},
                                                                       {"0h", 0ms}}));
  INFO(text);

  CHECK(cli::parse_time(text) == time);
}

TEST_CASE("a positive time is never rounded to 0") {
  CHECK(cli::parse_time("0.0001") == 1ms);
  CHECK(cli::parse_time("0.07") == 70ms);
}

TEST_CASE("a time that is malformed, negative or beyond a thousand days is refused") {
  const char* text =
      GENERATE("", "s", "-1", "-1s", "nan", "inf", "infinity", "1 s", " 1", "1 ", "10S", "10sec",
               "10x", "1h30m", "0x10", "+1", "1,5", "1e", "1001d", "1e99", "1e999", "99999999999");
  INFO(text);

  CHECK_FALSE(cli::parse_time(text));
}

TEST_CASE("a time below the least is refused") {
  CHECK(cli::parse_time("10ms", 10ms) == 10ms);
  CHECK_FALSE(cli::parse_time("9ms", 10ms));
  CHECK_FALSE(cli::parse_time("0", 10ms));
}

TEST_CASE("an endpoint is a host with or without a port") {
  const auto [text, host, port] = GENERATE(
      table<const char*, const char*, int>({{"gpu-07", "gpu-07", -1},
                                            {"gpu-07:29500", "gpu-07", 29500},
                                            {"a.b_c.example.org:1", "a.b_c.example.org", 1},
                                            {"10.0.0.1", "10.0.0.1", -1},
                                            {"10.0.0.1:0", "10.0.0.1", 0},
                                            {"localhost:65535", "localhost", 65535},
                                            {":29500", "", 29500},
                                            {"::1", "::1", -1},
                                            {"fe80::1%eth0", "fe80::1%eth0", -1},
                                            {"[::1]", "::1", -1},
                                            {"[::1]:29500", "::1", 29500},
                                            {"[fe80::1%eth0]:1", "fe80::1%eth0", 1},
                                            {"::ffff:10.0.0.1", "::ffff:10.0.0.1", -1}}));
  INFO(text);

  const auto endpoint = cli::parse_host_port(text);

  REQUIRE(endpoint);
  CHECK(endpoint->host == host);
  CHECK((endpoint->port ? *endpoint->port : -1) == port);
}

TEST_CASE("a malformed endpoint is refused") {
  const char* text =
      GENERATE("", ":", "gpu-07:", "gpu-07:http", "gpu-07:65536", "gpu-07:-1", "gpu-07: 1",
               "http://gpu-07:29500", "a b", "gpu-07/x", "[gpu-07]", "[gpu-07]:1", "[::1", "::1]",
               "[::1]29500", "[::1]:", "[]", "[]:1", "fe80::1:70000", "1:2:3", "fe80::1%", "a,b",
               "gpu-07:1:2", "1:2:3:4:5:6:7:8:29500", "fe80::1%lo:123", "fe80::1%eth0]");
  INFO(text);

  CHECK_FALSE(cli::parse_host_port(text));
}

TEST_CASE("a host has no port") {
  CHECK(cli::parse_host("[fe80::1]") == "fe80::1");
  CHECK_FALSE(cli::parse_host("gpu-07:1"));
  CHECK_FALSE(cli::parse_host("[::1]:1"));
  CHECK_FALSE(cli::parse_host(std::string_view("::\0e", 4)));
  CHECK_FALSE(cli::parse_host(""));
}

TEST_CASE("a job's name is printable text") {
  CHECK(cli::is_run_id("job 42 (größer)"));
  CHECK(cli::is_run_id(std::string(256, 'x')));
  CHECK_FALSE(cli::is_run_id(""));
  CHECK_FALSE(cli::is_run_id(std::string(257, 'x')));
  CHECK_FALSE(cli::is_run_id("a\nb"));
  CHECK_FALSE(cli::is_run_id("a\x1b[31mb"));
  CHECK_FALSE(cli::is_run_id("a\xff"));
}

Result<> set_conf(std::string_view text, agent::JobSpec& job) {
  cli::EtcdConf etcd;
  return cli::set_rdzv_conf(text, job, etcd);
}

TEST_CASE("ddprun accepts every key of torchrun's --rdzv_conf, and uses those with a meaning") {
  agent::JobSpec job;
  must(
      set_conf("join_timeout=60,last_call_timeout=1.5,keep_alive_interval=4, "
               "keep_alive_max_attempt = 5 ,is_host=True,close_timeout=x,"
               "heartbeat_timeout=5,read_timeout=60,store_type=tcp,use_libuv=1",
               job));

  CHECK(job.join_timeout == 60s);
  CHECK(job.last_call == 1500ms);
  CHECK(job.heartbeat == 4s);
  CHECK(job.lease == 20s);
  CHECK(job.is_host == true);
}

TEST_CASE("in --rdzv_conf, timeout means join_timeout and may have a unit") {
  agent::JobSpec job;
  must(set_conf("timeout=2min,is_host=0", job));

  CHECK(job.join_timeout == 120s);
  CHECK(job.is_host == false);
}

TEST_CASE("if one of the lease's two keys is given, the other has torchrun's default") {
  agent::JobSpec interval, attempts, longest;
  must(set_conf("keep_alive_interval=1", interval));
  must(set_conf("keep_alive_max_attempt=10", attempts));
  must(set_conf("keep_alive_interval=1000d,keep_alive_max_attempt=10000", longest));

  CHECK(interval.heartbeat == 1s);
  CHECK(interval.lease == 3s);
  CHECK(attempts.heartbeat == 2s);
  CHECK(attempts.lease == 50s);
  CHECK(longest.lease == cli::kLongestTime);
}

TEST_CASE("more_ports in --rdzv_conf gives further ports and needs is_host") {
  agent::JobSpec job;
  cli::EtcdConf etcd;
  must(cli::set_rdzv_conf("is_host=true,more_ports=1:65535", job, etcd));
  CHECK(job.more_ports == std::vector<std::uint16_t>{1, 65'535});
  CHECK(cli::more_ports_text(job.more_ports) == "more_ports=1:65535");
  for (const char* bad : {"more_ports=1", "is_host=true,more_ports=", "is_host=true,more_ports=0",
                          "is_host=true,more_ports=1:x", "is_host=true,more_ports=65536"}) {
    agent::JobSpec none;
    INFO(bad);
    CHECK_FALSE(cli::set_rdzv_conf(bad, none, etcd).has_value());
  }
}

TEST_CASE("keys of --rdzv_conf say how to reach etcd, as for torchrun") {
  agent::JobSpec job;
  cli::EtcdConf etcd;
  must(cli::set_rdzv_conf("protocol=https,cacert=/ca,cert=/c,key=/k", job, etcd));

  CHECK(etcd.https);
  CHECK(etcd.files.authority == "/ca");
  CHECK(etcd.files.certificate == "/c");
  CHECK(etcd.files.key == "/k");
  must(cli::check_etcd_conf(etcd, true));
  must(cli::set_rdzv_conf("protocol=http", job, etcd));
  must(cli::check_etcd_conf(etcd, false));
}

TEST_CASE("the keys for etcd are refused if one is missing or the backend is not etcd") {
  const auto [text, by_etcd, sentence] = GENERATE(table<const char*, bool, const char*>(
      {{"protocol=https,cacert=a", false,
        "--rdzv_conf protocol, cacert, cert and key say how etcd is reached: give --rdzv_backend "
        "etcd, or leave them out"},
       {"cacert=a", true, "--rdzv_conf cacert, cert and key need protocol=https"},
       {"protocol=https", true,
        "--rdzv_conf protocol=https needs cacert=FILE, the certificates that have signed those of "
        "etcd's servers"},
       {"protocol=https,cacert=a,key=b", true,
        "--rdzv_conf cert=FILE and key=FILE are given together, or not at all"}}));
  agent::JobSpec job;
  cli::EtcdConf etcd;
  must(cli::set_rdzv_conf(text, job, etcd));
  const Result<> checked = cli::check_etcd_conf(etcd, by_etcd);
  REQUIRE_FALSE(checked.has_value());
  CHECK(checked.error().message == sentence);
}

TEST_CASE("an empty --rdzv_conf changes nothing") {
  agent::JobSpec job;
  must(set_conf("", job));

  CHECK(job.join_timeout == 600s);
  CHECK(job.last_call == 30s);
  CHECK(job.heartbeat == 2s);
  CHECK(job.lease == 10s);
  CHECK_FALSE(job.is_host);
}

TEST_CASE("a wrong --rdzv_conf is refused with the valid values, and changes nothing") {
  const auto [text, sentence] = GENERATE(table<const char*, const char*>(
      {{"join_timeuot=60", "has no key 'join_timeuot'; did you mean join_timeout?"},
       {"last_call_timeout=1,is-host=1", "has no key 'is-host'; did you mean is_host?"},
       {"protocol=ftp", "protocol expects http or https, not 'ftp'"},
       {"protocol=https,cacert=", "cacert expects the name of a file, not ''"},
       {"join_timeout", "expects key=value, not 'join_timeout'"},
       {"last_call_timeout=1,,is_host=1", "expects key=value, not ''"},
       {"is_host=maybe", "is_host expects true or false, not 'maybe'"},
       {"keep_alive_max_attempt=0", "keep_alive_max_attempt expects a number, 1 to 10000, not '0'"},
       {"join_timeout=soon",
        "join_timeout expects a time from 10ms to 1000d: seconds, or with a unit such as 500ms, "
        "10min or 1h, not 'soon'"}}));
  INFO(text);
  agent::JobSpec job;

  const Result<> taken = set_conf(text, job);

  REQUIRE(taken.has_error());
  CHECK(taken.error().code == Errc::usage);
  CHECK(taken.error().message == sentence);
  CHECK(job.last_call == 30s);
}

TEST_CASE("unknown keys are accepted, as by torchrun, but with a warning") {
  agent::JobSpec job;
  must(set_conf("cas_backoff_max_seconds=1,etcd_prefix=/x,last_call_timeout=1", job));
  CHECK(job.last_call == 1s);
  CHECK(job.warnings ==
        std::vector<std::string>{"--rdzv_conf has no key 'etcd_prefix': it is ignored"});
}

TEST_CASE("quotes around a whole --rdzv_conf are removed: PyTorch's tests have them") {
  for (const char* text : {"'join_timeout=5,is_host=1'", "\"join_timeout=5,is_host=1\""}) {
    agent::JobSpec job;
    must(set_conf(text, job));
    CHECK(job.join_timeout == 5s);
    CHECK(job.is_host == true);
  }
  agent::JobSpec job;
  CHECK(set_conf("'", job).has_error());
  CHECK(set_conf("'is_host=1", job).has_error());
}

TEST_CASE("a mask applies to every worker, or to the named local ranks") {
  const auto all = cli::parse_masks("2");
  CHECK((all && all->any() && !all->holds(0, 1) && all->holds(0, 2) && all->holds(4711, 2)));

  const auto some = cli::parse_masks("0:3,12:1,0:2");
  REQUIRE(some);
  CHECK(some->named == std::map<int, unsigned>{{0, 2}, {12, 1}});
  CHECK(some->others == 0);
  CHECK(some->holds(12, 1));
  CHECK_FALSE(some->holds(1, 3));

  CHECK_FALSE(cli::parse_masks("0")->any());
  CHECK_FALSE(cli::parse_masks("3:0")->any());
}

TEST_CASE("a malformed mask is refused") {
  const char* text = GENERATE("", "4", "-1", "x", "1:", ":1", "1:4", "0:1,", ",0:1", "0:1,,1:1",
                              "0:1;1:1", "1:1:1", "0x1:1", "-1:1", "1,2", " 1", "99999999999:1");
  INFO(text);
  CHECK_FALSE(cli::parse_masks(text));
}

TEST_CASE("ranks are separated by commas") {
  CHECK(cli::parse_ranks("0") == std::set<int>{0});
  CHECK(cli::parse_ranks("12,0,12") == std::set<int>{0, 12});
  const char* text = GENERATE("", ",", "1,", "-1", "a", "1 2", "1:2");
  INFO(text);
  CHECK_FALSE(cli::parse_ranks(text));
}

TEST_CASE("a comma separates texts, and a doubled comma is a comma in a text") {
  using Texts = std::vector<std::string>;
  CHECK(cli::parse_texts("loss") == Texts{"loss"});
  CHECK(cli::parse_texts("a b,c") == Texts{"a b", "c"});
  CHECK(cli::parse_texts("a,,b,c") == Texts{"a,b", "c"});
  CHECK(cli::parse_texts("a,,,b") == Texts{"a,", "b"});
  CHECK(cli::parse_texts(",,") == Texts{","});
  const char* text = GENERATE("", ",", "a,", ",a");
  INFO(text);
  CHECK_FALSE(cli::parse_texts(text));
}
