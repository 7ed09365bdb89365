"""Each process holds what is its own: workers map their layers, the coordinator no weights at all."""
import unittest

import cluster

MIB = 1 << 20


class Memory(cluster.TestCase):
    def test_workers_map_their_own_layers_alone(self):
        model = cluster.real_model()
        with cluster.cluster(self.folder, model, context=1024) as c:
            c.generate("-p", "Describe the sea, the mountains and the forest. " * 3, "-n", 8)
            workers = c.status()["workers"]
            own = [w["weights_bytes"] for w in workers]
            resident = [cluster.mapped_bytes(w["pid"], model) for w in workers]
            for bytes_own, bytes_resident in zip(own, resident):
                self.assertLessEqual(bytes_resident, bytes_own * 1.05 + 2 * MIB)
                self.assertGreaterEqual(bytes_resident, bytes_own / 3)  # it maps, it does not copy
            self.assertLess(max(own), 0.9 * model.stat().st_size)
            coordinator = c.coordinator.process.pid
            self.assertLessEqual(cluster.resident_bytes(coordinator) - c.idle_bytes, 64 * MIB)
            self.assertLessEqual(cluster.mapped_bytes(coordinator, model), 8 * MIB)

    def test_a_model_in_use_is_its_weights_and_its_cache(self):
        model = cluster.real_model()
        with cluster.cluster(self.folder, model, num_workers=1, context=1024) as c:
            c.generate("-p", "Describe the sea, the mountains and the forest. " * 30, "-n", 16)
            worker, = c.status()["workers"]
            self.assertGreater(worker["weights_bytes"], 64 * MIB)  # or a second copy would not show
            allowed = model.stat().st_size + worker["kv_bytes"] + 64 * MIB
            self.assertLessEqual(cluster.resident_bytes(worker["pid"]), allowed)


if __name__ == "__main__":
    unittest.main()
