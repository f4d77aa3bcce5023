// SPDX-License-Identifier: Apache-2.0
#include "cli/manifest_line.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/flag_sources.h"
#include "cli/line/flags.h"
#include "cli/line/usage_error.h"
#include "cli/line/values.h"
#include "cli/manifest/manifest.h"
#include "cli/manual/pages.h"

namespace ddprun::cli {
namespace {

constexpr int kMostGpus = 1024;

/// The first minor version with a podFailurePolicy.
constexpr int kOldestKubernetes = 25;

/// The longest grace: clusters allow a pod less, and Kubernetes' field holds a limited number.
constexpr std::chrono::hours kLongestGrace{24};

/// The time for the report after the workers' end.
constexpr std::chrono::seconds kReportTime{5};

/// Flags whose values Kubernetes gives, or that make no sense in a pod.
constexpr std::array kNotForPods = std::to_array<std::string_view>(
    {"config",     "engine",      "node_rank",     "hosts",         "hostfile",     "ssh",
     "export",     "master_addr", "master_port",   "rdzv_endpoint", "rdzv_backend", "rdzv_conf",
     "standalone", "dry_run",     "requeue",       kHelp,           kVersion,       "secret_file",
     "bench",      "json",        kPrintCompletion});

/// Reads the words after "manifest": the kind, options of the manifest and of the pods' ddprun, the
/// program. Reads no environment: it is not the pods'.
class Reader {
 public:
  explicit Reader(std::span<const char* const> words) : words_(words) {}

  Result<Manifest> read() {
    if (const Result<> kind = read_kind(); !kind) return kind.error();
    while (!words_.empty() && is_option(words_.front())) {
      if (const Result<> option = read_option(); !option) return option.error();
    }
    if (!words_.empty() && words_.front() == std::string_view("--")) take();
    if (words_.empty()) {
      return usage_error("no program to run in the pods; see ddprun manifest --help");
    }
    return finish();
  }

 private:
  static bool is_option(std::string_view word) {
    return word.starts_with('-') && word != "-" && word != "--";
  }

  std::string_view take() {
    const std::string_view word = words_.front();
    words_ = words_.subspan(1);
    return word;
  }

  Result<> read_kind() {
    const std::string_view word = words_.empty() ? std::string_view() : take();
    for (const KindName& choice : kManifestKinds) {
      if (choice.name != word) continue;
      manifest_.kind = choice.kind;
      return {};
    }
    return usage_error("ddprun manifest expects job, jobset or trainjob, not '" +
                       std::string(word) +
                       "'; a program called manifest is run as ddprun "
                       "./manifest");
  }

  Result<> read_option() {
    const std::string_view word = take();
    const size_t equals = std::min(word.find('='), word.size());
    const std::string_view name = word.substr(0, equals);
    std::string* const own = own_option(name);
    if (own == nullptr) return read_flag_of_pods(word);
    std::optional<std::string_view> value;
    if (equals < word.size()) value = word.substr(equals + 1);
    const Result<std::string> given = value_of(name, value);
    if (!given) return given.error();
    *own = *given;
    return own->empty() ? needs_value(name) : Result<>();
  }

  std::string* own_option(std::string_view name) {
    if (name == "--name") return &manifest_.name;
    if (name == "--image") return &manifest_.image;
    if (name == "--secret") return &manifest_.secret;
    if (name == "--kubernetes") return &kubernetes_;
    return name == "--gpus" ? &gpus_ : nullptr;
  }

  static Error needs_value(std::string_view name) {
    return usage_error(std::string(name) + " needs a value; see ddprun manifest --help");
  }

  bool is_value(std::string_view word) {
    return word != "--" && find_flag(word) == nullptr && own_option(word) == nullptr;
  }

  /// The value in the same word, or else the next word.
  Result<std::string> value_of(std::string_view name, std::optional<std::string_view> value) {
    if (!value && !words_.empty() && is_value(words_.front())) value = take();
    if (!value) return needs_value(name);
    return std::string(*value);
  }

  Result<> read_flag_of_pods(std::string_view word) {
    auto [flag, value] = read_flag(word);
    if (flag == nullptr) {
      return usage_error("unknown flag " + std::string(word.substr(0, word.find('='))) +
                         "; see ddprun manifest --help and ddprun --help");
    }
    const std::string name = spelled(*flag);
    if (flag->name == "secret_file") {
      return usage_error(
          "--secret_file is a file of this host: give --secret, the name of a "
          "Kubernetes Secret");
    }
    if (!is_for_pods(*flag)) {
      return usage_error(name +
                         " cannot be in a manifest: pods get what it says from Kubernetes, "
                         "or not at all; see ddprun manifest --help");
    }
    if (!flag->value.empty()) {
      const bool is_alone = words_.empty() || !can_follow(*flag, words_.front());
      if (!value && is_alone && flag->may_be_alone()) value = flag->left_out;
      const Result<std::string> given = value_of(name, value);
      return given ? set(*flag, *given, name + "=" + *given) : given.error();
    }
    if (value) return usage_error(name + " takes no value, but got '" + std::string(*value) + "'");
    return set(*flag, "1", name);
  }

  Result<> set(const Flag& flag, const std::string& value, const std::string& argument) {
    manifest_.arguments.push_back(argument);
    return set_option(flag, value, spelled(flag), raw_);
  }

  Result<Manifest> finish() {
    std::vector<std::string>& arguments = manifest_.arguments;
    manifest_.min_nodes = raw_.job.min_nodes;
    manifest_.max_nodes = raw_.job.max_nodes;
    if (!raw_.given.contains("nnodes")) arguments.insert(arguments.begin(), "--nnodes=1");
    arguments.emplace_back("--");
    arguments.insert(arguments.end(), words_.begin(), words_.end());
    if (const Result<> grace = set_grace(); !grace) return grace.error();
    if (const Result<> gpus = set_gpus(); !gpus) return gpus.error();
    if (const Result<> version = set_version(); !version) return version.error();
    if (!manifest_.secret.empty()) {
      arguments.insert(arguments.begin(), std::string("--secret_file=").append(kSecretInPod));
    }
    if (manifest_.kind == ManifestKind::trainjob && manifest_.min_nodes < manifest_.max_nodes) {
      return usage_error(
          "a TrainJob has a fixed number of nodes: give --nnodes N, or make a job "
          "or a jobset");
    }
    if (const Result<> checked = check_manifest(manifest_); !checked) return checked.error();
    return std::move(manifest_);
  }

  /// Without --shutdown_timeout keeps the pod's default: ddprun then takes 25 s.
  Result<> set_grace() {
    if (!raw_.given.contains("shutdown_timeout")) return {};
    if (raw_.job.stop_grace > kLongestGrace) {
      return usage_error("--shutdown_timeout is too long for a pod: at most 24h");
    }
    manifest_.grace = std::chrono::ceil<std::chrono::seconds>(raw_.job.stop_grace) + kReportTime;
    return {};
  }

  Result<> set_version() {
    const std::string_view text = kubernetes_;
    if (text.empty()) return {};
    if (text.starts_with("1.") &&
        assign(parse_count(text.substr(2), kOldestKubernetes, 99), manifest_.kubernetes)) {
      return {};
    }
    return usage_error("--kubernetes expects a version from 1." +
                       std::to_string(kOldestKubernetes) + " on, as in 1.29, not '" + kubernetes_ +
                       "'");
  }

  Result<> set_gpus() {
    using Kind = LocalSize::Kind;
    if (!gpus_.empty()) {
      if (assign(parse_count(gpus_, 0, kMostGpus), manifest_.gpus)) return {};
      return usage_error("--gpus expects a number of GPUs, 0 to " + std::to_string(kMostGpus) +
                         ", not '" + gpus_ + "'");
    }
    const LocalSize& size = raw_.local_size;
    if (size.kind != Kind::number && size.kind != Kind::cpu) {
      return usage_error("--nproc_per_node counts the GPUs of a pod: give their number, --gpus N");
    }
    if (size.kind == Kind::number) manifest_.gpus = std::min(size.number, kMostGpus);
    return {};
  }

  std::span<const char* const> words_;
  RawOptions raw_;
  std::string gpus_;
  std::string kubernetes_;
  Manifest manifest_;
};

}  // namespace

bool is_for_pods(const Flag& flag) {
  return std::find(kNotForPods.begin(), kNotForPods.end(), flag.name) == kNotForPods.end();
}

Result<std::string> manifest_output(std::span<const char* const> words) {
  for (const std::string_view word : words.first(std::min<size_t>(words.size(), 2))) {
    if (asks_for_help(word)) return plain_text(page_of("manifest"));
  }
  const Result<Manifest> manifest = Reader(words).read();
  if (!manifest) return manifest.error();
  return manifest_text(*manifest);
}

}  // namespace ddprun::cli
