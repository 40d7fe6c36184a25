"""A Kafka cluster for tests in Python. As a program it prints its port and runs until it is ended."""

import ctypes
import signal
import socket
import threading


class MockKafka:
    """librdkafka's own mock cluster (rdkafka_mock.h), of one broker. `front`: a port in front of it, for a number that is known."""

    def __init__(self, front=0):
        library = ctypes.CDLL("librdkafka.so.1")
        library.rd_kafka_new.restype = library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
        library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        library.rd_kafka_mock_cluster_new.argtypes = [ctypes.c_void_p, ctypes.c_int]
        library.rd_kafka_mock_cluster_bootstraps.argtypes = [ctypes.c_void_p]
        error = ctypes.create_string_buffer(512)
        client = library.rd_kafka_new(0, None, error, ctypes.c_size_t(512))
        cluster = library.rd_kafka_mock_cluster_new(client, 1)
        self.port = int(library.rd_kafka_mock_cluster_bootstraps(cluster).decode().rpartition(":")[2])
        self._library, self._cluster = library, cluster
        if front == 0:
            return
        self._server = socket.create_server(("127.0.0.1", front))
        threading.Thread(target=self._accept, daemon=True).start()

    def set_up(self, up):
        """Whether the broker is there. Where it is not, connections end, and new ones are refused."""
        change = self._library.rd_kafka_mock_broker_set_up if up else self._library.rd_kafka_mock_broker_set_down
        change.argtypes = [ctypes.c_void_p, ctypes.c_int32]
        assert change(self._cluster, 1) == 0

    def _accept(self):
        while True:
            near, _ = self._server.accept()
            far = socket.create_connection(("127.0.0.1", self.port))
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(a, b), daemon=True).start()

    def _pump(self, a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        for one in (a, b):
            one.close()


if __name__ == "__main__":
    print(MockKafka().port, flush=True)
    signal.pause()
