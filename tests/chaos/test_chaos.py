#!/usr/bin/env python3
"""Tests of the chaos harness's own parts: what judges must be right first."""

import os
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import chaos
import misdeeds
import report
import soak
import tries
from bench import Case, Result, Skip
from cases_service import CASES
from parts import Connection, Left, Truth, Usage, at_rest, balance, descriptors, percentile, symbolizer_pipes


class Slope(unittest.TestCase):
    def test_a_leak_grows_and_noise_does_not(self):
        times = list(range(600))
        noise = [((i * 7919) % 101) / 10 for i in times]
        self.assertFalse(soak.slope(times, noise).grows(1))
        leak = [value + 0.05 * i for i, value in enumerate(noise)]
        found = soak.slope(times, leak)
        self.assertTrue(found.grows(1))
        self.assertAlmostEqual(found.growth, 0.05 * 580, delta=1)

    def test_growth_below_the_bound_is_none(self):
        times = list(range(600))
        self.assertFalse(soak.slope(times, [0.001 * i for i in times]).grows(1))

    def test_too_few_samples_say_nothing(self):
        self.assertIsNone(soak.slope([1, 2, 3], [1, 2, 3]))

    def test_students_quantile_is_that_of_the_tables(self):
        self.assertAlmostEqual(soak.student_t(28), 2.467, delta=0.002)
        self.assertAlmostEqual(soak.student_t(10), 2.764, delta=0.01)


class Emulated(unittest.TestCase):
    ROWS = chaos.rows_left_out("# text\n^chaos/quick$ starts programs\n^chaos/disk.full$ has no disk\n")

    def test_has_five_times_as_long(self):
        case = chaos.emulated(Case("disk", "y", None, recovery_s=2.0), self.ROWS)
        self.assertEqual((case.recovery_s, case.true_ms, case.run), (10.0, 250, None))
        self.assertIsNone(chaos.emulated(Case("disk", "y", None, recovery_s=None), self.ROWS).recovery_s)

    def test_leaves_out_what_the_list_names_with_its_reason(self):
        with self.assertRaisesRegex(Skip, "^has no disk$"):
            chaos.emulated(Case("disk full", "y", None), self.ROWS).run(None)


class Tries(unittest.TestCase):
    def test_a_kind_that_fails_at_once_has_one_camera_that_waits(self):
        cameras, wait_s = tries.plan(probed=450, tries=1000, seconds=1000)  # a try took 0.1 s, all of it the wait
        self.assertEqual(cameras, 1)
        self.assertAlmostEqual(wait_s, 1.0)

    def test_a_kind_that_holds_camd_has_many_that_do_not(self):
        cameras, wait_s = tries.plan(probed=3, tries=1000, seconds=1000)  # a try took 15 s
        self.assertEqual(cameras, 15)
        self.assertAlmostEqual(wait_s, tries.LEAST_WAIT_S)

    def test_kinds_run_in_the_order_of_the_texts_that_name_them_each_once(self):
        self.assertEqual(chaos.kinds_of(["echo", "DESCRIBE: z", "at once", "DESCRIBE: zeros"]),
                         ["echo", "DESCRIBE: zeros", "closed at once", "reset at once"])
        self.assertEqual(chaos.kinds_of([]), list(misdeeds.KINDS))

    def test_a_kind_that_was_never_tried_has_no_more_than_may_be(self):
        self.assertEqual(tries.plan(probed=0, tries=10000, seconds=600), (tries.MOST_CAMERAS, tries.LEAST_WAIT_S))

    def test_the_least_of_each_span_counts(self):
        samples = [(0, 1, 9), (5, 1, 4), (19, 1, 7), (20, 1, 6), (41, 1, 8), (42, 1, 5)]
        self.assertEqual(tries.least(samples, 2, 20), [(5, 1, 4), (20, 1, 6), (42, 1, 5)])

    def test_what_is_left_of_a_program_may_not_grow_with_its_tries(self):
        first = Left(bytes=3_000_000, threads=3, descriptors=6, names=2820)
        well = tries.growth_of(first, Left(3_004_000, 4, 6, 2822), 9800)
        self.assertEqual(well, {"bytes": 4000, "threads": 1, "descriptors": 0, "names": 2, "problems": []})
        leak = tries.growth_of(first, Left(3_000_000 + 16 * 9800, 3, 7, 2820), 9800)
        self.assertEqual(leak["problems"], ["156800 more bytes are left", "1 more descriptors are left"])

    def test_a_recorded_answer_has_the_number_of_its_request(self):
        answers = {"DESCRIBE": (b"RTSP/1.0 200 OK\r\nCSeq: 2\r\nContent-Length: 4\r\n\r\n", b"v=0\n")}
        head = b"DESCRIBE rtsp://host/live RTSP/1.0\r\nCSeq: 17\r\n\r\n"
        self.assertEqual(misdeeds.recorded_answer(answers, head),
                         b"RTSP/1.0 200 OK\r\nCSeq: 17\r\nContent-Length: 4\r\n\r\nv=0\n")
        self.assertEqual(misdeeds.recorded_answer(answers, b"TEARDOWN * RTSP/1.0\r\nCSeq: 3\r\n\r\n"),
                         b"RTSP/1.0 200 OK\r\nCSeq: 3\r\n\r\n")


class Parts(unittest.TestCase):
    def test_the_ledger_misses_a_lost_frame(self):
        totals = {"captured": 10, "delivered": 7, "in_flight": 1, "dropped": {"superseded": 1, "too_old": 0}}
        self.assertEqual(balance(totals), 1)

    def test_percentile_is_the_nearest_rank(self):
        self.assertEqual(percentile([3, 1, 2], 99), 3)
        self.assertEqual(percentile(range(1, 101), 50), 50)

    def test_truth_is_read_as_it_grows(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "truth.txt"
            truth = Truth(path)
            self.assertEqual(truth.update(), [])
            path.write_text("door 0 100 110 120 7 99 320 240 -\ndoor 1 2")
            self.assertEqual(len(truth.of("door")), 1)
            with path.open("a") as file:
                file.write("00 210 220 - - 320 240 5\n")
            self.assertEqual([frame.true for frame in truth.of("door")], [99, None])
            self.assertEqual(truth.frames[1].captured, 200)

    def test_a_message_ends_with_its_body(self):
        class Socket:
            def __init__(self, data):
                self.data = data

            def recv(self, _):
                first, self.data = self.data[:5], self.data[5:]
                return first
        stream = b"$\x00\x00\x02ab" + b"RTSP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabcRTSP"
        head, body, rest = misdeeds.read_message(Socket(stream), b"")
        self.assertEqual((head, body), (b"RTSP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", b"abc"))
        self.assertTrue(b"RTSP".startswith(rest))

    def test_there_are_a_hundred_kinds_of_misbehaving_servers(self):
        self.assertGreaterEqual(len(misdeeds.KINDS), 100)


    def test_a_try_counts_when_the_misdeed_is_done(self):
        class Proxy:
            tries, endless_pause_s = 0, 0.0

            def on_misdeed(self):
                self.tries += 1

        class Connection:
            proxy = Proxy()
        connection = Connection()
        misdeeds.KINDS["closed at once"](connection)
        self.assertEqual(connection.proxy.tries, 1)

    def test_a_client_that_goes_takes_its_connection_to_the_camera_along(self):
        client, near = socket.socketpair()
        far, camera = socket.socketpair()
        connection = Connection(None, near)
        connection.upstream = far
        client.close()
        misdeeds.forward_requests(connection)
        camera.settimeout(5)
        self.assertEqual(camera.recv(1), b"")
        for one in (near, far, camera):
            one.close()

    def test_a_descriptor_that_is_closed_for_a_moment_is_there_at_rest(self):
        self.assertEqual(at_rest([Usage(80, 19, 25), None, Usage(90, 18, 24)]), Usage(90, 19, 24))
        self.assertIsNone(at_rest([None, None]))

    def test_a_sanitizers_symbolizer_is_no_leak(self):
        with tempfile.TemporaryDirectory() as folder:
            child = Path(folder) / "llvm-symbolizer"
            child.write_bytes(Path(sys.executable).resolve().read_bytes())
            child.chmod(0o755)
            environment = {**os.environ, "PYTHONHOME": sys.base_prefix}
            with subprocess.Popen([child, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env=environment) as process:
                process.stdout.readline()  # it has its name by then
                pipes = symbolizer_pipes(os.getpid())
                self.assertEqual(pipes, set(descriptors(process.pid, (0, 1))))
                self.assertEqual(len(pipes), 2)
                self.assertTrue(pipes <= set(descriptors(os.getpid())))
                process.stdin.write(b"\n")
        self.assertEqual(symbolizer_pipes(os.getpid()), set())


class Table(unittest.TestCase):
    def test_every_case_has_a_name_of_its_own(self):
        names = [case.name for case in CASES]
        self.assertEqual(len(names), len(set(names)))

    def test_a_bound_that_is_not_kept_is_said_in_the_table(self):
        case = Case("x", "y", None)
        result = Result(case, recoveries_s=[3.0], problems=["recovery p99 3.00 s, bound 1 s"], exit_code=0)
        self.assertIn("**not yet**: recovery p99 3.00 s, bound 1 s", report.row(result))
        self.assertIn("| yes |", report.row(Result(case, recoveries_s=[0.5], exit_code=0)))

    def test_the_docs_keep_what_is_outside_the_markers(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "reliability.md"
            path.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
            report.write_docs(path, [Result(Case("x", "y", None), recoveries_s=[0.5], exit_code=0)])
            text = path.read_text()
            self.assertTrue(text.startswith("before\n") and text.endswith("\nafter\n"))
            self.assertNotIn("old", text)
            self.assertIn("| x: y | 1 | 0.50 s (bound 1 s) |", text)
            # A case that cannot be run here keeps the row of the machine that could.
            skipped = Result(Case("x", "y", None), skipped="no kernel")
            report.write_docs(path, [skipped, Result(Case("new", "z", None), skipped="no kernel")])
            self.assertIn("| x: y | 1 | 0.50 s (bound 1 s) |", path.read_text())
            self.assertIn("| new: z | skipped: no kernel |", path.read_text())


if __name__ == "__main__":
    unittest.main()
