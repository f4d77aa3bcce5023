// SPDX-License-Identifier: Apache-2.0
#include "cli/manifest/manifest.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "cli/line/usage_error.h"

namespace ddprun::cli {
namespace {

struct Escape {
  std::string_view text;
  std::string_view escaped;
};

/// The printable() characters that end a scalar or a line in YAML, or that YAML does not allow.
constexpr std::array kEscapes = std::to_array<Escape>({{"\"", "\\\""},
                                                       {"\\", "\\\\"},
                                                       {"\n", "\\n"},
                                                       {"\t", "\\t"},
                                                       {"\u2028", "\\L"},
                                                       {"\u2029", "\\P"},
                                                       {"\ufffe", "\\ufffe"},
                                                       {"\uffff", "\\uffff"}});

/// `text` as a YAML scalar in double quotes. printable() must not change it.
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

/// The longest host name that Kubernetes allows: a DNS label.
constexpr size_t kLongestLabel = 63;
constexpr size_t kLongestSecretName = 253;
constexpr size_t kLongestImage = 1024;

/// The first minor versions of Kubernetes that know these fields, and the label with a domain.
constexpr int kLongLabel = 27, kReplacementPolicy = 28, kOptionalConditions = 29,
              kSuccessPolicy = 30;

/// A wrong value for a sentence, as one line.
std::string shown(const std::string& value) {
  std::string text = yaml_text(printable(cut(value, 100)));
  text.front() = text.back() = '\'';
  return text;
}

bool is_label_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

/// Whether `text` is a label of RFC 1123, in lower case as Kubernetes requires.
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

/// The suffix of the controllers' name for a job's last pod or its host.
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

/// Doubles each $: Kubernetes replaces $(NAME) in arguments, and reads $$ as one $.
std::string without_variables(std::string_view argument) {
  std::string text;
  for (const char c : argument) text.append(c == '$' ? 2 : 1, c);
  return text;
}

/// Exit codes are those of exit_code.h. A drained or preempted pod does not count. A pod that was
/// killed, or timed out, or in which ddprun itself failed, counts against the Job's backoffLimit.
/// Any other code is the job's end on all nodes.
///
/// Python asks for the user's home and name; a user without an entry in /etc/passwd has none. If
/// service links were enabled, a Service with the name master would set MASTER_PORT.
constexpr std::string_view kJobSpec = R"(completionMode: Indexed
completions: ${nodes}
parallelism: ${nodes}
${replacement policy}
podFailurePolicy:
  rules:
    - action: Ignore
      onPodConditions:
        - type: DisruptionTarget
          status: "True"
    - action: FailJob
      onExitCodes:
        containerName: node
        operator: NotIn
        values: [124, 125, 137, 143]
      ${no conditions}
${success policy}
template:
  spec:
    restartPolicy: Never
    ${subdomain}
    terminationGracePeriodSeconds: ${grace}
    enableServiceLinks: false
    automountServiceAccountToken: false
    securityContext:
      runAsNonRoot: true
      runAsUser: 1000
      runAsGroup: 1000
      fsGroup: 1000
      seccompProfile:
        type: RuntimeDefault
    containers:
      - name: node
        image: ${image}
        command: [ddprun]
        args:
          ${arguments}
        env:
          - name: HOME
            value: /tmp
          - name: USER
            value: ddprun
        ${resources}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
        volumeMounts:
          - name: shm
            mountPath: /dev/shm
          - name: tmp
            mountPath: /tmp
          ${secret mount}
    volumes:
      - name: shm
        emptyDir:
          medium: Memory
      - name: tmp
        emptyDir: {}
      ${secret volume}
)";

/// Publishes addresses of pods that are not ready yet: ddprun waits for them, not the kubelet.
constexpr std::string_view kJob = R"(apiVersion: v1
kind: Service
metadata:
  name: ${name}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    ${name label}: ${name}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: ${name}
spec:
  ${job spec}
)";

constexpr std::string_view kJobSet = R"(apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: ${name}
spec:
  network:
    enableDNSHostnames: true
    publishNotReadyAddresses: true
  replicatedJobs:
    - name: node
      replicas: 1
      template:
        spec:
          ${job spec}
)";

/// It has no policy for PyTorch, so the Trainer sets none of torchrun's variables: the pods find
/// each other like those of any JobSet.
constexpr std::string_view kTrainJob = R"(apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata:
  name: ${name}
spec:
  mlPolicy:
    numNodes: ${nodes}
  template:
    spec:
      network:
        enableDNSHostnames: true
        publishNotReadyAddresses: true
      replicatedJobs:
        - name: node
          replicas: 1
          template:
            metadata:
              labels:
                trainer.kubeflow.org/trainjob-ancestor-step: trainer
            spec:
              ${job spec}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: ${name}
spec:
  runtimeRef:
    apiGroup: trainer.kubeflow.org
    kind: TrainingRuntime
    name: ${name}
  trainer:
    numNodes: ${nodes}
)";

using Blanks = std::map<std::string_view, std::string>;

/// Takes the first line, with its line break, off `rest`. Each line has a line break.
std::string_view take_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n') + 1);
  rest.remove_prefix(line.size());
  return line;
}

/// Appends a line of a template, filled in. A value of several lines is alone in its line, and gets
/// its blank's indentation. If it is empty, the line is dropped.
void append_filled(std::string& text, std::string_view line, const Blanks& blanks) {
  const size_t begin = line.find("${");
  if (begin == std::string_view::npos) {
    text.append(line);
    return;
  }
  const size_t end = line.find('}', begin);
  const std::string& value = blanks.at(line.substr(begin + 2, end - begin - 2));
  if (line.find_first_not_of(' ') == begin && end + 2 == line.size()) {
    for (std::string_view rest = value; !rest.empty();) text.append(begin, ' ') += take_line(rest);
    return;
  }
  text.append(line.substr(0, begin)).append(value);
  append_filled(text, line.substr(end + 1), blanks);
}

std::string filled(std::string_view form, const Blanks& blanks) {
  std::string text;
  while (!form.empty()) append_filled(text, take_line(form), blanks);
  return text;
}

std::string arguments_text(const Manifest& manifest) {
  std::string text;
  for (const std::string& argument : manifest.arguments) {
    text.append("- ").append(yaml_text(without_variables(argument))).append("\n");
  }
  return text;
}

std::string resources_text(const Manifest& manifest) {
  if (manifest.gpus == 0) return "";
  return "resources:\n  limits:\n    nvidia.com/gpu: " + std::to_string(manifest.gpus) + "\n";
}

std::string secret_mount(const Manifest& manifest) {
  if (manifest.secret.empty()) return "";
  return "- name: secret\n  mountPath: " +
         std::string(kSecretInPod.substr(0, kSecretInPod.rfind('/'))) + "\n  readOnly: true\n";
}

/// The secret is root's, and the group of the pod's user can read it: mode 0440, in YAML 288.
std::string secret_volume(const Manifest& manifest) {
  if (manifest.secret.empty()) return "";
  return "- name: secret\n  secret:\n    secretName: " + yaml_text(manifest.secret) +
         "\n    defaultMode: 288\n    items:\n      - key: secret\n        path: secret\n";
}

/// The job does not need pods that never found a node, or that come back after the others' end.
std::string success_policy(const Manifest& manifest) {
  const bool is_elastic = manifest.min_nodes < manifest.max_nodes;
  if (!is_elastic || manifest.kubernetes < kSuccessPolicy) return "";
  return "successPolicy:\n  rules:\n    - succeededIndexes: \"0\"\n";
}

Blanks blanks_of(const Manifest& manifest) {
  const std::string name = yaml_text(manifest.name);
  const int version = manifest.kubernetes;
  // In a JobSet, the pods have the subdomain of its own Service.
  const bool has_service = manifest.kind == ManifestKind::job;
  return {
      {"name", name},
      {"nodes", std::to_string(manifest.max_nodes)},
      {"name label", version >= kLongLabel ? "batch.kubernetes.io/job-name" : "job-name"},
      {"replacement policy", version >= kReplacementPolicy ? "podReplacementPolicy: Failed\n" : ""},
      // Older schemas require it even beside onExitCodes.
      {"no conditions", version < kOptionalConditions ? "onPodConditions: []\n" : ""},
      {"success policy", success_policy(manifest)},
      {"subdomain", has_service ? "subdomain: " + name + "\n" : ""},
      {"grace", std::to_string(manifest.grace.count())},
      {"image", yaml_text(manifest.image)},
      {"arguments", arguments_text(manifest)},
      {"resources", resources_text(manifest)},
      {"secret mount", secret_mount(manifest)},
      {"secret volume", secret_volume(manifest)},
  };
}

std::string_view form_of(ManifestKind kind) {
  switch (kind) {
    case ManifestKind::job:
      return kJob;
    case ManifestKind::jobset:
      return kJobSet;
    case ManifestKind::trainjob:
      return kTrainJob;
  }
  return "";
}

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
  Blanks blanks = blanks_of(manifest);
  blanks.emplace("job spec", filled(kJobSpec, blanks));
  return filled(form_of(manifest.kind), blanks);
}

}  // namespace ddprun::cli
