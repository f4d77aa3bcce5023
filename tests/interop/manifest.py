# SPDX-License-Identifier: Apache-2.0
"""Holds manifests to the schemas of Kubernetes, JobSet and Kubeflow's Trainer: manifest.py FIRST_VERSION FILE...

Objects of Kubernetes, and the jobs in those of the others, against each version from FIRST_VERSION on,
strictly: a field that is unknown there is an error. Those of JobSet and Trainer against the models in
kubeflow-trainer-api, which drop what they do not know.
"""
import sys

import kubernetes_validate
import yaml
from kubeflow_trainer_api import models
from kubernetes_validate.utils import all_versions

# The arguments that manifest.sh gives; Kubernetes reads $$ as $.
ARGUMENTS = ["--", "./train", 'a "b": #\\', "$(HOME) $$", "two\nlines\t", "naïve ✓", "", "- x"]

MODELS = {
    "JobSet": models.JobsetV1alpha2JobSet,
    "TrainingRuntime": models.TrainerV1alpha1TrainingRuntime,
    "TrainJob": models.TrainerV1alpha1TrainJob,
}


def versions(first):
    known = list(dict.fromkeys(version.rpartition(".")[0] for version in all_versions()))
    return known[known.index(first) :]


def jobs(thing):
    """Each job in a JobSet or TrainingRuntime, as a Job of its own."""
    spec = thing.get("spec", {}).get("template", {}).get("spec") or thing["spec"]
    for replicated in spec.get("replicatedJobs", ()):
        yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one"}, "spec": replicated["template"]["spec"]}


def check_arguments(job):
    (container,) = job["spec"]["template"]["spec"]["containers"]
    read = [argument.replace("$$", "$") for argument in container["args"]]
    assert read[-len(ARGUMENTS) :] == ARGUMENTS, read


def check(thing, first):
    model = MODELS.get(thing["kind"])
    if model is None:
        for version in versions(first):
            kubernetes_validate.validate(thing, version, strict=True)
        if thing["kind"] == "Job":
            check_arguments(thing)
        return
    read = model.from_dict(thing).to_dict()
    assert read == thing, f"{thing['kind']}: {thing} is read as {read}"
    for job in jobs(thing):
        check(job, first)


def main(first, *files):
    checked = 0
    for file in files:
        with open(file) as manifest:
            for thing in yaml.safe_load_all(manifest):
                check(thing, first)
                checked += 1
    print(f"{checked} objects are valid in Kubernetes {', '.join(versions(first))}")


main(*sys.argv[1:])
