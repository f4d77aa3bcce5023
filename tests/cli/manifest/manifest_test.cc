// SPDX-License-Identifier: Apache-2.0
#include "cli/manifest/manifest.h"

#include <algorithm>

#include "tests/cli/command_line.h"
#include "tests/contains.h"

// tests/interop/manifest.sh checks that Kubernetes accepts the text.

using namespace ddprun;
using tests::contains;

namespace {

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The manifest of a job called train, with more options and a program.
std::string manifest(const char* kind, const Words& options = {},
                     const Words& program = {"--", "./train"}) {
  const Words words = {"manifest", kind, "--name", "train", "--image", "registry/train:1"};
  return printed(with(with(words, options), program));
}

std::string refused_line(const Words& options, const char* kind = "job") {
  return refusal(with(with({"manifest", kind}, options), {"--", "./train"}));
}

std::string refused_name(const std::string& name, const char* kind = "job") {
  return refused_line({"--name", name.c_str(), "--image", "i", "--nnodes", "100"}, kind);
}

bool accepts_name(const std::string& name, const char* kind) {
  const Words words = {"manifest", kind,       "--name", name.c_str(), "--image",
                       "i",        "--nnodes", "100",    "./train"};
  return cli::parse(words, host()).has_value();
}

}  // namespace

TEST_CASE("the manifest of a job is a headless Service and an Indexed Job") {
  CHECK(manifest("job", {"--nnodes", "2:4", "--nproc_per_node=8", "--secret", "train.secret"},
                 {"--", "./train", "--lr", "0.1"}) == R"(apiVersion: v1
kind: Service
metadata:
  name: "train"
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    batch.kubernetes.io/job-name: "train"
---
apiVersion: batch/v1
kind: Job
metadata:
  name: "train"
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 4
  podReplacementPolicy: Failed
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
  successPolicy:
    rules:
      - succeededIndexes: "0"
  template:
    spec:
      restartPolicy: Never
      subdomain: "train"
      terminationGracePeriodSeconds: 30
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
          image: "registry/train:1"
          command: [ddprun]
          args:
            - "--secret_file=/run/secrets/ddprun/secret"
            - "--nnodes=2:4"
            - "--nproc_per_node=8"
            - "--"
            - "./train"
            - "--lr"
            - "0.1"
          env:
            - name: HOME
              value: /tmp
            - name: USER
              value: ddprun
          resources:
            limits:
              nvidia.com/gpu: 8
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
            - name: secret
              mountPath: /run/secrets/ddprun
              readOnly: true
      volumes:
        - name: shm
          emptyDir:
            medium: Memory
        - name: tmp
          emptyDir: {}
        - name: secret
          secret:
            secretName: "train.secret"
            defaultMode: 288
            items:
              - key: secret
                path: secret
)");
}

TEST_CASE("a manifest omits the fields that an older Kubernetes does not know") {
  const auto elastic = [](const char* version) {
    return manifest("job", {"--nnodes", "3:4", "--kubernetes", version});
  };
  CHECK(contains(elastic("1.30"), "successPolicy"));
  CHECK_FALSE(contains(elastic("1.29"), "successPolicy"));
  CHECK_FALSE(contains(elastic("1.29"), "onPodConditions: []"));
  CHECK(contains(elastic("1.28"), "onPodConditions: []"));
  CHECK(contains(elastic("1.28"), "podReplacementPolicy"));
  CHECK_FALSE(contains(elastic("1.27"), "podReplacementPolicy"));
  CHECK(contains(elastic("1.27"), "    batch.kubernetes.io/job-name: "));
  CHECK(contains(elastic("1.26"), "    job-name: "));
  CHECK(contains(elastic("1.25"), "podFailurePolicy"));
  for (const char* bad : {"1.24", "2.30", "1.", "1.x", "30", "1.100"}) {
    CHECK(contains(refused_line({"--name", "a", "--image", "i", "--kubernetes", bad}),
                   "--kubernetes expects a version from 1.25 on, as in 1.29, not '"));
  }
}

TEST_CASE("a job of a fixed size ends when all its pods have") {
  CHECK_FALSE(contains(manifest("job", {"--nnodes", "4"}), "successPolicy"));
  CHECK_FALSE(contains(manifest("jobset", {"--nnodes", "4"}), "successPolicy"));
  CHECK(contains(manifest("jobset", {"--nnodes", "3:4"}), "successPolicy"));
}

TEST_CASE("a JobSet has a Service and a subdomain of its own") {
  const std::string text = manifest("jobset", {"--nnodes", "2"});
  CHECK(text.starts_with("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n"));
  CHECK(contains(text, "publishNotReadyAddresses: true"));
  CHECK(contains(
      text, "\n                - name: node\n                  image: "));  // the container, deeper
                                                                            // than in a job
  CHECK_FALSE(contains(text, "subdomain"));
  CHECK_FALSE(contains(text, "kind: Service"));
}

TEST_CASE("a TrainJob comes with its runtime") {
  const std::string text = manifest("trainjob", {"--nnodes", "3"});
  CHECK(contains(text, "kind: TrainingRuntime\n"));
  CHECK(contains(text, "  mlPolicy:\n    numNodes: 3\n"));
  CHECK(contains(text, "trainer.kubeflow.org/trainjob-ancestor-step: trainer\n"));
  CHECK(contains(text, "kind: TrainJob\n"));
  CHECK(contains(text, "  trainer:\n    numNodes: 3\n"));
  CHECK(contains(refused_line({"--name", "a", "--image", "i", "--nnodes", "1:2"}, "trainjob"),
                 "a TrainJob has a fixed number of nodes"));
}

TEST_CASE("the pods' command line has --nnodes, even if it is not given") {
  CHECK(contains(manifest("job"), "- \"--nnodes=1\"\n"));
  CHECK(contains(manifest("job", {"--nnodes", "7"}), "args:\n            - \"--nnodes=7\"\n"));
}

TEST_CASE("flags reach the pods in ddprun's spelling and in the given order") {
  const std::string text =
      manifest("job", {"--max-restarts", "3", "-m", "--nnode=2"}, {"package.train"});
  CHECK(contains(text,
                 "            - \"--max_restarts=3\"\n            - \"--module\"\n"
                 "            - \"--nnodes=2\"\n            - \"--\"\n"
                 "            - \"package.train\"\n"));
  CHECK(contains(manifest("job", {"--mpi"}, {"./train"}), "- \"--mpi=both\"\n"));
  CHECK(contains(manifest("job", {"--mpi", "pmix"}, {"./train"}), "- \"--mpi=pmix\"\n"));
}

TEST_CASE("a pod's grace period leaves ddprun time for its report") {
  CHECK(contains(manifest("job"), "terminationGracePeriodSeconds: 30\n"));
  CHECK(contains(manifest("job", {"--shutdown_timeout", "90.5"}),
                 "terminationGracePeriodSeconds: 96\n"));
  CHECK(contains(refused_line({"--name", "a", "--image", "i", "--shutdown_timeout", "2d"}),
                 "--shutdown_timeout is too long"));
}

TEST_CASE("a pod asks for a GPU for each worker, or for as many as are given") {
  CHECK(contains(manifest("job", {"--nproc_per_node", "8"}), "nvidia.com/gpu: 8\n"));
  CHECK(contains(manifest("job", {"--nproc_per_node", "gpu", "--gpus", "4"}), "gpu: 4\n"));
  CHECK_FALSE(contains(manifest("job", {"--nproc_per_node", "8", "--gpus=0"}), "resources"));
  CHECK_FALSE(contains(manifest("job", {"--nproc_per_node", "cpu"}), "resources"));
  CHECK(contains(refused_line({"--nproc_per_node", "auto"}), "give their number, --gpus N"));
  CHECK(contains(refused_line({"--gpus", "many"}), "not 'many'"));
}

TEST_CASE("arguments are escaped for YAML and Kubernetes, so that pods get them unchanged") {
  const std::string text =
      manifest("job", {}, {"--", "sh", "-c", "echo \"$(HOME)\" $$\t\\\nyes", "", "naïve\u2028"});
  CHECK(contains(text, R"(- "echo \"$$(HOME)\" $$$$\t\\\nyes")"));
  CHECK(contains(text, "- \"\"\n"));
  CHECK(contains(text, R"(- "naïve\L")"));
  for (const char* bad : {"\x1b[2J", "\xff", "\u0085"}) {
    const Words words = {"manifest", "job", "--name", "a", "--image", "i", "./train", bad};
    CHECK(contains(refusal(words), "YAML cannot hold this argument"));
  }
}

TEST_CASE("ddprun refuses names that Kubernetes would refuse") {
  for (const char* bad : {"", "Train", "-a", "a-", "a.b", "a_b", "1a", "a\"", "a\nb", "ä"}) {
    INFO(bad);
    CHECK(
        contains(refused_line({(std::string("--name=") + bad).c_str(), "--image", "i"}), "--name"));
  }
  for (const char* bad : {"", "a b", "a\nb", "-a", "a\"b", "$(a)"}) {
    INFO(bad);
    CHECK(contains(refused_line({"--name", "a", (std::string("--image=") + bad).c_str()}),
                   "--image"));
  }
  for (const char* bad : {"", "A", "a..b", ".a", "a.", "a b"}) {
    INFO(bad);
    CHECK(contains(
        refused_line({"--name", "a", "--image", "i", (std::string("--secret=") + bad).c_str()}),
        "--secret"));
  }
}

TEST_CASE("a name is refused if the last pod's host name is longer than a label") {
  CHECK(accepts_name(std::string(60, 'a'), "job"));
  CHECK(contains(refused_name(std::string(61, 'a')), "with -99, as for the last pod, it has 64"));
  CHECK(accepts_name(std::string(47, 'a'), "jobset"));
  CHECK(contains(refused_name(std::string(48, 'a'), "jobset"), "too long"));
  CHECK(contains(refused_name(std::string(64, 'a')), "--name expects"));
  CHECK(contains(refused_line({}), "a manifest needs a name for its job: --name NAME"));
}

TEST_CASE("flags that a manifest cannot have are refused") {
  for (const char* flag : {"--node_rank=1", "--rdzv_endpoint=a", "--hosts=a,b", "--standalone",
                           "--json", "--print_completion=bash"}) {
    CHECK(contains(refused_line({flag}), "cannot be in a manifest"));
  }
  CHECK(contains(refused_line({"--secret_file", "f"}), "give --secret"));
  CHECK(contains(refused_line({"--max_restart", "1"}), "unknown flag --max_restart"));
  CHECK(contains(refused_line({"--nnodes"}), "--nnodes needs a value"));
  CHECK(contains(refused_line({"--nnodes", "0"}), "--nnodes expects"));
  CHECK(contains(refused_line({"--name"}), "--name needs a value"));
  CHECK(contains(refused_line({}, "pod"), "expects job, jobset or trainjob, not 'pod'"));
  CHECK(contains(refusal({"manifest"}), "expects job, jobset or trainjob"));
  CHECK(contains(refusal({"manifest", "job", "--name", "a", "--image", "i", "--"}), "no program"));
}

TEST_CASE("the host's environment does not change the manifest") {
  const Words words = {"manifest", "job", "--name", "a", "--image", "i", "./train"};
  CHECK(printed(words, host({"PET_NNODES=9", "PET_NPROC_PER_NODE=9"})) == printed(words));
}

TEST_CASE("manifest has a help, and after -- it is a program's name") {
  CHECK(contains(printed({"manifest", "--help"}), "Usage: ddprun manifest"));
  CHECK(contains(printed({"manifest", "job", "--help"}), "Usage: ddprun manifest"));
  CHECK(job({"--", "manifest"}).program == "/bin/manifest");
}
