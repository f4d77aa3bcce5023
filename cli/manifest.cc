// SPDX-License-Identifier: Apache-2.0
#include "cli/manifest.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "cli/usage_error.h"

namespace ddprun::cli {
namespace {

/// The longest host name that Kubernetes allows: a DNS label.
constexpr size_t kLongestLabel = 63;
constexpr size_t kLongestSecretName = 253;
constexpr size_t kLongestImage = 1024;

/// The minor versions of Kubernetes that know these fields first, and the label with a domain.
constexpr int kLongLabel = 27, kReplacementPolicy = 28, kOptionalConditions = 29,
              kSuccessPolicy = 30;

/// A wrong value in a sentence, as one line.
std::string shown(const std::string& value) {
  std::string text = yaml_text(printable(cut(value, 100)));
  text.front() = text.back() = '\'';
  return text;
}

bool is_label_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

/// RFC 1123, in lower case as Kubernetes wants it.
bool is_label(std::string_view text) {
  return !text.empty() && text.size() <= kLongestLabel &&
         std::all_of(text.begin(), text.end(), is_label_character) && text.front() != '-' &&
         text.back() != '-';
}

bool is_subdomain(std::string_view text) {
  if (text.size() > kLongestSecretName) return false;
  for (;;) {
    const size_t dot = text.find('.');
    if (!is_label(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

bool is_image(std::string_view text) {
  constexpr std::string_view kGood =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@";
  return !text.empty() && text.size() <= kLongestImage && text.front() != '-' &&
         text.find_first_not_of(kGood) == std::string_view::npos;
}

/// The suffix with which the controllers name a job's last pod or its host.
std::string last_suffix(const Manifest& manifest) {
  const std::string index = std::to_string(manifest.max_nodes - 1);
  return manifest.kind == ManifestKind::job ? "-" + index : "-node-0-" + index + "-abcde";
}

Result<> check_name(const Manifest& manifest) {
  const std::string& name = manifest.name;
  if (name.empty()) return usage_error("a manifest needs a name for its job: --name NAME");
  // The name of a Service begins with a letter, until Kubernetes 1.33.
  if (!is_label(name) || name.front() < 'a') {
    return usage_error(
        "--name expects a name of lower-case letters, digits and '-' that begins "
        "with a letter and does not end in '-' (RFC 1123), not " +
        shown(name));
  }
  const std::string suffix = last_suffix(manifest);
  if (name.size() + suffix.size() <= kLongestLabel) return {};
  return usage_error("--name '" + name + "' is too long: with " + suffix +
                     ", as for the last pod, it has " +
                     std::to_string(name.size() + suffix.size()) + " characters of at most " +
                     std::to_string(kLongestLabel));
}

/// Kubernetes replaces $(NAME) in arguments, and reads $$ as one $.
std::string without_variables(std::string_view argument) {
  std::string text;
  for (const char c : argument) text.append(c == '$' ? 2 : 1, c);
  return text;
}

/// `lines` moved to the right. No line break is inside a scalar.
std::string indented(std::string_view lines, size_t columns) {
  std::string text;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    text.append(columns, ' ').append(lines.substr(0, end));
    lines.remove_prefix(end);
  }
  return text;
}

std::string arguments_text(const Manifest& manifest) {
  std::string text = "args:\n";
  for (const std::string& argument : manifest.arguments) {
    text.append("  - ").append(yaml_text(without_variables(argument))).append("\n");
  }
  return text;
}

/// A user without an entry in /etc/passwd has neither a home nor a name, which Python asks for.
std::string environment_text() {
  return "env:\n"
         "  - name: HOME\n"
         "    value: /tmp\n"
         "  - name: USER\n"
         "    value: ddprun\n";
}

std::string container_text(const Manifest& manifest) {
  std::string text = "name: node\nimage: " + yaml_text(manifest.image) +
                     "\n"
                     "command: [ddprun]\n" +
                     arguments_text(manifest) + environment_text();
  if (manifest.gpus > 0) {
    text += "resources:\n  limits:\n    nvidia.com/gpu: " + std::to_string(manifest.gpus) + "\n";
  }
  text +=
      "securityContext:\n"
      "  allowPrivilegeEscalation: false\n"
      "  readOnlyRootFilesystem: true\n"
      "  capabilities:\n"
      "    drop: [ALL]\n"
      "volumeMounts:\n"
      "  - name: shm\n"
      "    mountPath: /dev/shm\n"
      "  - name: tmp\n"
      "    mountPath: /tmp\n";
  if (!manifest.secret.empty()) {
    const std::string_view folder = kSecretInPod.substr(0, kSecretInPod.rfind('/'));
    text.append("  - name: secret\n    mountPath: ")
        .append(folder)
        .append("\n    readOnly: true\n");
  }
  text = indented(text, 4);
  return text.replace(2, 1, "-");
}

/// Root's, and readable by the group of the pod's user: mode 0440, which YAML has as 288.
std::string secret_volume_text(const Manifest& manifest) {
  if (manifest.secret.empty()) return "";
  return "  - name: secret\n"
         "    secret:\n"
         "      secretName: " +
         yaml_text(manifest.secret) +
         "\n"
         "      defaultMode: 288\n"
         "      items:\n"
         "        - key: secret\n"
         "          path: secret\n";
}

std::string pod_text(const Manifest& manifest) {
  // A JobSet gives its pods the subdomain of its own Service.
  const bool has_service = manifest.kind == ManifestKind::job;
  return "restartPolicy: Never\n" +
         (has_service ? "subdomain: " + yaml_text(manifest.name) + "\n" : "") +
         "terminationGracePeriodSeconds: " + std::to_string(manifest.grace.count()) +
         "\n"
         // Else a Service that is called master would set MASTER_PORT.
         "enableServiceLinks: false\n"
         "automountServiceAccountToken: false\n"
         "securityContext:\n"
         "  runAsNonRoot: true\n"
         "  runAsUser: 1000\n"
         "  runAsGroup: 1000\n"
         "  fsGroup: 1000\n"
         "  seccompProfile:\n"
         "    type: RuntimeDefault\n"
         "containers:\n" +
         container_text(manifest) +
         "volumes:\n"
         "  - name: shm\n"
         "    emptyDir:\n"
         "      medium: Memory\n"
         "  - name: tmp\n"
         "    emptyDir: {}\n" +
         secret_volume_text(manifest);
}

/// When the job is over, and when a pod is only replaced: exit codes are those of exit_code.h.
/// A pod that was drained or preempted counts for nothing; one that was killed, or timed out, or in
/// which ddprun itself failed, counts against the Job's backoffLimit. Any other code is the end
/// that all nodes of the job have come to.
std::string policies_text(const Manifest& manifest) {
  const std::string replacement =
      manifest.kubernetes >= kReplacementPolicy ? "podReplacementPolicy: Failed\n" : "";
  // Their schemas want it beside onExitCodes, too.
  const std::string no_conditions =
      manifest.kubernetes < kOptionalConditions ? "      onPodConditions: []\n" : "";
  const std::string policies = replacement +
                               "podFailurePolicy:\n"
                               "  rules:\n"
                               "    - action: Ignore\n"
                               "      onPodConditions:\n"
                               "        - type: DisruptionTarget\n"
                               "          status: \"True\"\n"
                               "    - action: FailJob\n"
                               "      onExitCodes:\n"
                               "        containerName: node\n"
                               "        operator: NotIn\n"
                               "        values: [124, 125, 137, 143]\n" +
                               no_conditions;
  if (manifest.min_nodes == manifest.max_nodes || manifest.kubernetes < kSuccessPolicy) {
    return policies;
  }
  // Pods that never had a place on a node, or come back when the others have ended, are not needed.
  return policies +
         "successPolicy:\n"
         "  rules:\n"
         "    - succeededIndexes: \"0\"\n";
}

std::string job_spec(const Manifest& manifest) {
  const std::string pods = std::to_string(manifest.max_nodes);
  return "completionMode: Indexed\n"
         "completions: " +
         pods +
         "\n"
         "parallelism: " +
         pods + "\n" + policies_text(manifest) +
         "template:\n"
         "  spec:\n" +
         indented(pod_text(manifest), 4);
}

std::string heading(std::string_view api, std::string_view kind, const std::string& name) {
  return std::string("apiVersion: ")
      .append(api)
      .append("\nkind: ")
      .append(kind)
      .append("\nmetadata:\n  name: ")
      .append(yaml_text(name))
      .append("\nspec:\n");
}

/// Addresses of pods that are not ready yet are published: ddprun waits for them, not the kubelet.
std::string job_text(const Manifest& manifest) {
  return heading("v1", "Service", manifest.name) +
         "  clusterIP: None\n"
         "  publishNotReadyAddresses: true\n"
         "  selector:\n"
         "    " +
         (manifest.kubernetes >= kLongLabel ? "batch.kubernetes.io/job-name: " : "job-name: ") +
         yaml_text(manifest.name) + "\n---\n" + heading("batch/v1", "Job", manifest.name) +
         indented(job_spec(manifest), 2);
}

/// `labels` of the one job in the set.
std::string jobset_spec(const Manifest& manifest, std::string_view labels) {
  return "network:\n"
         "  enableDNSHostnames: true\n"
         "  publishNotReadyAddresses: true\n"
         "replicatedJobs:\n"
         "  - name: node\n"
         "    replicas: 1\n"
         "    template:\n" +
         std::string(labels) + "      spec:\n" + indented(job_spec(manifest), 8);
}

std::string jobset_text(const Manifest& manifest) {
  return heading("jobset.x-k8s.io/v1alpha2", "JobSet", manifest.name) +
         indented(jobset_spec(manifest, ""), 2);
}

/// Without a policy for PyTorch, so that the Trainer sets no variables of torchrun's: the pods find
/// each other as those of any JobSet.
std::string trainjob_text(const Manifest& manifest) {
  constexpr std::string_view kApi = "trainer.kubeflow.org/v1alpha1";
  constexpr std::string_view kTrainerStep =
      "      metadata:\n"
      "        labels:\n"
      "          trainer.kubeflow.org/trainjob-ancestor-step: trainer\n";
  const std::string nodes = std::to_string(manifest.max_nodes);
  return heading(kApi, "TrainingRuntime", manifest.name) + "  mlPolicy:\n    numNodes: " + nodes +
         "\n"
         "  template:\n"
         "    spec:\n" +
         indented(jobset_spec(manifest, kTrainerStep), 6) + "---\n" +
         heading(kApi, "TrainJob", manifest.name) +
         "  runtimeRef:\n"
         "    apiGroup: trainer.kubeflow.org\n"
         "    kind: TrainingRuntime\n"
         "    name: " +
         yaml_text(manifest.name) +
         "\n"
         "  trainer:\n"
         "    numNodes: " +
         nodes + "\n";
}

struct Escape {
  std::string_view text;
  std::string_view escaped;
};

/// The characters of printable() that end a scalar or a line in YAML, or that YAML does not have.
constexpr std::array kEscapes = std::to_array<Escape>({{"\"", "\\\""},
                                                       {"\\", "\\\\"},
                                                       {"\n", "\\n"},
                                                       {"\t", "\\t"},
                                                       {"\u2028", "\\L"},
                                                       {"\u2029", "\\P"},
                                                       {"\ufffe", "\\ufffe"},
                                                       {"\uffff", "\\uffff"}});

}  // namespace

Result<> check_manifest(const Manifest& manifest) {
  if (const Result<> name = check_name(manifest); !name) return name;
  if (!is_image(manifest.image)) {
    return usage_error("--image expects the name of an image, as in registry/train:1, not " +
                       shown(manifest.image));
  }
  if (!manifest.secret.empty() && !is_subdomain(manifest.secret)) {
    return usage_error("--secret expects the name of a Secret (RFC 1123), not " +
                       shown(manifest.secret));
  }
  for (const std::string& argument : manifest.arguments) {
    if (printable(argument) == argument) continue;
    return usage_error(
        "YAML cannot hold this argument, for its control characters or as it is no "
        "UTF-8: " +
        shown(argument));
  }
  return {};
}

std::string manifest_text(const Manifest& manifest) {
  switch (manifest.kind) {
    case ManifestKind::job:
      return job_text(manifest);
    case ManifestKind::jobset:
      return jobset_text(manifest);
    case ManifestKind::trainjob:
      return trainjob_text(manifest);
  }
  return "";
}

std::string yaml_text(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const auto* const escape =
        std::find_if(kEscapes.begin(), kEscapes.end(),
                     [text](const Escape& each) { return text.starts_with(each.text); });
    const bool is_plain = escape == kEscapes.end();
    const size_t length = is_plain ? 1 : escape->text.size();
    quoted += is_plain ? text.substr(0, length) : escape->escaped;
    text.remove_prefix(length);
  }
  return quoted + "\"";
}

}  // namespace ddprun::cli
