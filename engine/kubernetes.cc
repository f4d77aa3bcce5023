// SPDX-License-Identifier: Apache-2.0
// Kubernetes: the pods of an Indexed Job, or of a JobSet of one such job, found by the Job API's
// completion index; and the pods of a Volcano job, found by its plugins env and svc. Kubeflow's
// Trainer sets PET_ variables, which are flags.
#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "engine/allocation.h"
#include "engine/detect.h"

namespace ddprun::engine {
namespace {

/// Splits "train-3" into {"train-", "3"}; nullopt: it does not end in a number.
std::optional<std::pair<std::string, std::string>> split_index(const std::string& host) {
  const size_t end = host.find_last_not_of("0123456789");
  if (end == std::string::npos || end + 1 == host.size() || host[end] != '-') return std::nullopt;
  return std::pair(host.substr(0, end + 1), host.substr(end + 1));
}

/// The text after this pod's name in its own line of /etc/hosts, where the kubelet writes "10.0.0.7
/// train-3.svc.namespace.svc.cluster.local train-3". It is also the other pods' domain.
std::string domain_of(const std::string& pod, const std::string& hosts) {
  const std::string prefix = pod + ".";
  for (size_t at = hosts.find(prefix); at != std::string::npos; at = hosts.find(prefix, at + 1)) {
    const bool begins = at > 0 && std::isspace(static_cast<unsigned char>(hosts[at - 1])) != 0;
    if (!begins) continue;
    const size_t end = std::min(hosts.find_first_of(" \t\n", at), hosts.size());
    return hosts.substr(at + pod.size(), end - at - pod.size());
  }
  return "";
}

std::string first_label(const std::string& host) {
  return host.substr(0, host.find('.'));
}

Result<std::optional<Allocation>> detect_indexed_job(const DetectionInput& input,
                                                     const Sourced<int>& index) {
  const std::string pod = first_label(input.host);
  const auto named = split_index(pod);
  if (!named || named->second != std::to_string(index.value)) {
    return Error{Errc::usage, text_of(input.environment, index.source) +
                                  ", but this pod's host name, " + printable(cut(pod, 200)) +
                                  ", does not end in -" + std::to_string(index.value)};
  }
  const std::string domain = domain_of(pod, input.read_file("/etc/hosts").value_or(std::string()));
  if (domain.empty()) {
    return Error{Errc::usage,
                 "/etc/hosts has no domain for this pod, " + pod +
                     ": the pods need a headless Service, named in spec.subdomain, to find each "
                     "other"};
  }
  Allocation allocation;
  allocation.job = named->first.substr(0, named->first.size() - 1) + domain;
  allocation.node_rank = index;
  allocation.master = {named->first + "0" + domain, "this pod's name and /etc/hosts"};
  return std::optional(std::move(allocation));
}

/// The hosts of this pod's task: VC_<TASK>_HOSTS.
std::optional<std::pair<std::string, Hosts>> volcano_task(const DetectionInput& input) {
  for (const auto& [name, value] : input.environment) {
    if (!name.starts_with("VC_") || !name.ends_with("_HOSTS")) continue;
    Hosts hosts;
    for (std::string_view rest = value; !rest.empty();) {
      const std::string_view host = take_piece(rest, ',');
      if (!host.empty()) hosts.emplace_back(host);
    }
    const bool has_us = std::any_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
      return is_same_host(first_label(host), first_label(input.host));
    });
    if (has_us) return std::pair(name, std::move(hosts));
  }
  return std::nullopt;
}

Result<std::optional<Allocation>> detect_volcano(const DetectionInput& input,
                                                 const Sourced<int>& index) {
  const auto task = volcano_task(input);
  if (!task) {
    return Error{Errc::usage, text_of(input.environment, index.source) +
                                  ", but no variable VC_<TASK>_HOSTS has this host, " +
                                  printable(cut(input.host, 200)) +
                                  ": the job needs Volcano's plugins env and svc"};
  }
  const auto& [name, hosts] = *task;
  Allocation allocation;
  const Result<> placed = place_among(allocation, hosts, name, first_label(input.host));
  if (!placed) return placed.error();
  if (allocation.node_rank->value != index.value) {
    return Error{Errc::usage, text_of(input.environment, index.source) +
                                  ", but this host has place " +
                                  std::to_string(allocation.node_rank->value) + " in " + name};
  }
  allocation.job = hosts.front();
  return std::optional(std::move(allocation));
}

}  // namespace

Result<std::optional<Allocation>> detect_kubernetes(const DetectionInput& input) {
  const Variables& variables = input.environment;
  if (!find(variables, "KUBERNETES_SERVICE_HOST")) return std::optional<Allocation>();
  const auto index = find_number(variables, "JOB_COMPLETION_INDEX", kMostHosts);
  if (!index) return index.error();
  if (*index) return detect_indexed_job(input, **index);
  const auto task_index = find_number(variables, "VC_TASK_INDEX", kMostHosts);
  if (!task_index) return task_index.error();
  if (*task_index) return detect_volcano(input, **task_index);
  return std::optional<Allocation>();
}

}  // namespace ddprun::engine
