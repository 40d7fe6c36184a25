"""The built camd with its outlets over TLS: the other side's certificate is checked, the client's own is shown, no password is seen.

usage: test_outlet_tls.py BUILD
"""

import json
import os
import shutil
import signal
import ssl
import subprocess
import unittest

import test_outlet_faults as faults
import test_outlets as shared


class Authority:
    """A certificate authority of its own in a folder, with a certificate of 127.0.0.1 and one of a client."""

    def __init__(self, folder, name):
        self.folder = folder / name
        self.folder.mkdir()
        self._make("ca", "-x509", "-subj", f"/CN={name}", "-days", "2")
        (self.folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        for one in ("server", "client"):
            self._make(one, "-subj", f"/CN={one} of {name}")
            self._openssl("x509", "-req", "-in", self.path(one), "-out", self.path(one), "-CA", self.path("ca"), "-CAkey",
                          self.key("ca"), "-CAcreateserial", "-days", "2", "-extfile", str(self.folder / "names"))

    def path(self, one):
        return str(self.folder / f"{one}.pem")

    def key(self, one):
        return str(self.folder / f"{one}.key")

    def _make(self, one, *further):
        self._openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", self.key(one), "-out", self.path(one), *further)
        os.chmod(self.key(one), 0o644)  # the broker reads it as another user

    @staticmethod
    def _openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@unittest.skipUnless(shutil.which("openssl"), "no openssl: scripts/install_deps.sh test")
class Tls(faults.TwoCameras):
    def setUp(self):
        super().setUp()
        self.ours, self.others = Authority(self.folder, "ours"), Authority(self.folder, "others")

    def broker(self, further=""):
        for program in (shared.BROKER, "/usr/bin/mosquitto_sub", faults.TOOL):
            if not os.access(program, os.X_OK):
                self.skipTest(f"no {program}: scripts/install_deps.sh test")
        subprocess.run([faults.TOOL, "-c", "-b", str(self.folder / "users"), "camd", "hunter2secret"], check=True,
                       capture_output=True)
        broker = shared.Broker(self.folder)
        config = self.folder / "mosquitto.conf"
        config.write_text(config.read_text().replace("allow_anonymous true", "allow_anonymous false") +
                          f"password_file {self.folder}/users\ncafile {self.ours.path('ca')}\n"
                          f"certfile {self.ours.path('server')}\nkeyfile {self.ours.key('server')}\n{further}")
        broker.start()
        self.addCleanup(lambda: broker.end(signal.SIGKILL))
        return broker

    def listen(self, broker, *options):
        process, lines, _ = shared.start(
            "/usr/bin/mosquitto_sub", "-h", "127.0.0.1", "-p", str(broker.port), "--cafile", self.ours.path("ca"), "--cert",
            self.ours.path("client"), "--key", self.ours.key("client"), "-u", "camd", "-P", "hunter2secret", "-q", "2", *options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return lines

    def test_mqtt_sends_over_tls_with_each_quality_of_service_and_the_last_will_tells_that_camd_was_killed(self):
        broker = self.broker("require_certificate true\n")
        secret = self.folder / "secret"
        secret.write_text("camd:hunter2secret\n")
        status = self.listen(broker, "-t", "camd/status")
        for qos in (0, 1, 2):
            with self.subTest(qos=qos):
                heard = self.listen(broker, "-t", f"q{qos}/+/detections")
                process = self.camd(f"      url: mqtts://127.0.0.1:{broker.port}\n      ca_file: {self.ours.path('ca')}\n"
                                    f"      cert_file: {self.ours.path('client')}\n      key_file: {self.ours.key('client')}\n"
                                    f"      user_file: {secret}\n      qos: {qos}\n      topic: q{qos}\n"
                                    "      status_topic: camd/status\n")
                self.wait(lambda: len(heard.lines) >= 20 and self.sum_of(lambda row: row["acknowledged"]) >= 20)
                if qos == 2:
                    self.wait(lambda: status.lines[-1:] == ["online"])
                    process.kill()
                    process.wait()
                    self.wait(lambda: status.lines[-1:] == ["offline"])
                    said = "\n".join(self.err.lines)
                else:
                    said = self.finish(process)
                self.assertNotIn("hunter2secret", said + "\n".join(self.out.lines))
                frames = list(map(json.loads, list(heard.lines)))
                for camera in ("c0", "c1"):
                    numbers = [frame["seq"] for frame in frames if frame["camera"] == camera]
                    self.assertEqual(numbers, sorted(set(numbers)))

    def test_a_broker_whose_certificate_is_another_authoritys_gets_nothing(self):
        broker = self.broker()
        process = self.camd(f"      url: mqtts://127.0.0.1:{broker.port}\n      ca_file: {self.others.path('ca')}\n"
                            "      user: camd\n      password: hunter2secret\n      outbox: {capacity: 20, retry_max: 100ms}\n")
        self.wait(lambda: self.rows() and self.sum_of(lambda row: row["dropped"]["full"]) >= 20)
        log = self.finish(process)
        self.assertEqual(self.sum_of(lambda row: row["acknowledged"]), 0)
        self.assertEqual(log.count("; tried again until it is back"), 1, log)
        self.assertNotIn("hunter2secret", log)

    def test_webhook_and_kafka_check_the_certificate_before_they_say_who_they_are(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ours.path("server"), self.ours.key("server"))
        context.load_verify_locations(self.ours.path("ca"))
        context.verify_mode = ssl.CERT_REQUIRED
        own = (f"      cert_file: {self.ours.path('client')}\n      key_file: {self.ours.key('client')}\n"
               "      user: camd\n      password: hunter2secret\n      outbox: {capacity: 20, retry_max: 100ms}\n")
        for authority in (self.others, self.ours):
            trusted = authority is self.ours
            with self.subTest("webhook", trusted=trusted):
                server = shared.Server(lambda frames: 200, context)
                self.addCleanup(server.server_close)
                self.addCleanup(server.shutdown)
                process = self.camd(f"      url: https://127.0.0.1:{server.server_port}/\n      ca_file: {authority.path('ca')}\n" +
                                    own, "webhook")
                if trusted:
                    self.wait(lambda: self.rows() and self.sum_of(lambda row: row["acknowledged"]) >= 20)
                else:
                    self.wait(lambda: self.rows() and self.sum_of(lambda row: row["dropped"]["full"]) >= 20)
                self.finish(process)
                self.assertEqual(bool(server.requests), trusted)
                if trusted:
                    self.assertIn("Basic Y2FtZDpodW50ZXIyc2VjcmV0", server.requests[0][2]["Authorization"])
            with self.subTest("kafka", trusted=trusted):
                kafka = faults.KafkaThatRefusesLogins(context)
                self.addCleanup(kafka.close)
                process = self.camd(f"      brokers: 127.0.0.1:{kafka.port}\n      topic: t\n      tls: true\n"
                                    f"      ca_file: {authority.path('ca')}\n" + own, "kafka")
                told = "no such user" if trusted else "certificate"
                self.wait(lambda: self.rows() and self.sum_of(lambda row: row["dropped"]["full"]) >= 20 and
                          told in "\n".join(self.err.lines))
                log = self.finish(process)
                self.assertNotIn("hunter2secret", log)
                self.assertEqual(bool(kafka.logins), trusted)


if __name__ == "__main__":
    unittest.main()
