"""The manifests of packaging/kubernetes: against Kubernetes's own schemas, and against the built camd.

usage: test_kubernetes.py CAMD
"""

import contextlib
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import fleet_venv

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "packaging/kubernetes"))
import render  # noqa: E402

VERSIONS = ("1.28", "1.31", "1.35")
CONFIG = f"""
  # A text that begins with an empty line and with spaces.
device: host
model: {{path: {SOURCE}/models/marker-640x360.onnx}}
cameras:
  - {{name: c0, source: {{type: test}}}}
  - {{name: c1, source: {{type: test}}}}
  - {{name: c2, source: {{type: test}}}}
  - {{name: c3, source: {{type: test}}}}
postprocess:
  - plugin: detections
""".replace("\ndevice", "\n\ndevice")


class Manifests(unittest.TestCase):
    def test_another_configuration_makes_other_pods(self):
        def checksum(config):
            return re.search(r'camd/config-sha256: "([0-9a-f]{64})"', render.manifests(config, 2, "camd:1"))[1]
        self.assertEqual(checksum(CONFIG), hashlib.sha256(CONFIG.encode()).hexdigest())
        self.assertNotEqual(checksum(CONFIG), checksum(CONFIG + "#\n"))

    def test_a_pod_without_a_gpu_asks_for_none(self):
        self.assertIn("nvidia.com/gpu: 1}", render.manifests(CONFIG, 2, "camd:1"))
        self.assertNotIn("nvidia", render.manifests(CONFIG, 2, "camd:1", gpus=0))

    def test_without_the_operator_there_is_no_monitor(self):
        self.assertIn("\nkind: ServiceMonitor\n", render.manifests(CONFIG, 2, "camd:1"))
        self.assertNotIn("ServiceMonitor", render.manifests(CONFIG, 2, "camd:1", monitor=False))

    def test_camd_takes_the_arguments_of_each_pod(self):
        arguments = re.findall(r"^            - (--\S+)$", render.manifests(CONFIG, 2, "camd:1"), re.M)
        self.assertEqual(arguments[0], "--metrics=json")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "camd.yaml"
            path.write_text(CONFIG)
            for ordinal, cameras in enumerate(("c0, c3", "c1, c2")):
                # As Kubernetes does, which leaves ${...} alone.
                told = [one.replace("$(SHARD)", str(ordinal)) for one in arguments[1:]]
                checked = subprocess.run([CAMD, "check", str(path), *told], capture_output=True, text=True,
                                         env={**os.environ, "CAMD_TOKEN": "0123456789abcdef"})
                self.assertIn(f"shard {ordinal}/2 has 2 of 4 cameras: {cameras}\n", checked.stdout, checked.stderr)


class Valid(unittest.TestCase):
    def setUp(self):
        try:
            import kubernetes_validate
            import yaml
        except ImportError:
            self.skipTest(f"no kubernetes-validate: {fleet_venv.HINT}")
        self.validate = kubernetes_validate.validate
        self.wrong = kubernetes_validate.ValidationError
        self.documents = list(yaml.safe_load_all(render.manifests(CONFIG, 3, "registry.example/camd:1")))
        self.by_kind = {one["kind"]: one for one in self.documents}

    def test_each_is_what_kubernetes_says_it_must_be(self):
        self.assertEqual(list(self.by_kind),
                         ["ConfigMap", "Service", "StatefulSet", "PodDisruptionBudget", "ServiceMonitor"])
        for one in self.documents:
            if one["kind"] == "ServiceMonitor":
                continue  # of the Prometheus operator: the next test
            for version in VERSIONS:
                with contextlib.redirect_stdout(sys.stderr):
                    self.validate(one, version, strict=True)

    def test_the_monitor_is_what_the_prometheus_operator_says_it_must_be(self):
        try:
            from cloudcoil.models.prometheus_operator import v1
        except ImportError:
            self.skipTest(f"no cloudcoil-models-prometheus-operator: {fleet_venv.HINT}")

        def as_read(document):
            """What the operator's own types make of it: fields that they do not have are not there."""
            return v1.ServiceMonitor.model_validate(document).model_dump(by_alias=True, exclude_unset=True, mode="json")
        monitor = self.by_kind["ServiceMonitor"]
        self.assertEqual(as_read(monitor)["spec"], monitor["spec"])
        endpoint = monitor["spec"]["endpoints"][0]
        endpoint["authorisation"] = endpoint.pop("authorization")
        self.assertNotEqual(as_read(monitor)["spec"], monitor["spec"])
        del monitor["spec"]["selector"]
        with self.assertRaises(ValueError):
            as_read(monitor)

    def test_what_is_misspelled_is_seen(self):
        container = self.by_kind["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
        container["readinesProbe"] = container.pop("readinessProbe")
        with self.assertRaises(self.wrong):
            self.validate(self.by_kind["StatefulSet"], VERSIONS[-1], strict=True)

    def test_they_fit_together(self):
        self.assertEqual(self.by_kind["ConfigMap"]["data"]["camd.yaml"], CONFIG)
        spec = self.by_kind["StatefulSet"]["spec"]
        pod = spec["template"]
        container = pod["spec"]["containers"][0]
        labels = pod["metadata"]["labels"]
        for selector in (spec["selector"]["matchLabels"], self.by_kind["Service"]["spec"]["selector"],
                         self.by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]):
            self.assertEqual(selector, labels)
        self.assertEqual(self.by_kind["ServiceMonitor"]["spec"]["selector"]["matchLabels"],
                         self.by_kind["Service"]["metadata"]["labels"])
        self.assertEqual(spec["replicas"], 3)
        self.assertIn("--shard=$(SHARD)/3", container["args"])
        self.assertEqual(container["env"][0]["name"], "SHARD")
        port = container["ports"][0]
        self.assertIn(f"--set=http.listen=0.0.0.0:{port['containerPort']}", container["args"])
        probes = {container[kind]["httpGet"]["path"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
        self.assertEqual(probes, {"/healthz", "/readyz"})
        service_port = self.by_kind["Service"]["spec"]["ports"][0]
        self.assertEqual((service_port["targetPort"], port["name"]), ("http", "http"))
        self.assertEqual(self.by_kind["ServiceMonitor"]["spec"]["endpoints"][0]["port"], service_port["name"])
        secret = container["envFrom"][0]["secretRef"]["name"]
        self.assertEqual(self.by_kind["ServiceMonitor"]["spec"]["endpoints"][0]["authorization"]["credentials"],
                         {"name": secret, "key": "CAMD_TOKEN"})
        volumes = {one["name"] for one in pod["spec"]["volumes"]} | {
            one["metadata"]["name"] for one in spec["volumeClaimTemplates"]}
        self.assertEqual({one["name"] for one in container["volumeMounts"]}, volumes)


if __name__ == "__main__":
    fleet_venv.enter()
    CAMD = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
