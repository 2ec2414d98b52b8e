"""Collectives of ranks in several processes: bits, and what a failing rank leaves."""
import os

import process_harness
from process_harness import harness

PROGRAM = os.path.join(os.path.dirname(harness.CLEAVE), "process-collectives")


class Collectives(process_harness.Case):
    def outcome(self, processes, ranks_each, mode):
        return process_harness.run(processes, [PROGRAM, str(ranks_each), mode],
                                   **process_harness.PLUGIN)

    def test_sums_have_the_bits_of_a_loop_in_the_order_of_ranks(self):
        for processes, ranks_each in ((2, 1), (4, 1), (3, 1), (2, 2), (3, 2), (2, 3)):
            with self.subTest(processes=processes, ranks_each=ranks_each):
                outcome = self.outcome(processes, ranks_each, "numbers")
                self.assertEqual(outcome.code, 0, outcome.err)

    def test_messages_arrive_whole_and_in_order(self):
        for processes, ranks_each in ((2, 1), (3, 1), (2, 2)):
            with self.subTest(processes=processes, ranks_each=ranks_each):
                outcome = self.outcome(processes, ranks_each, "traffic")
                self.assertEqual(outcome.code, 0, outcome.err)

    def test_a_failing_rank_wakes_who_waits_at_a_channel(self):
        failures = {
            "channel-error": (4, "error[data.broken]: no more samples (rank {last}, step 7"),
            "channel-empty": (None, "error[comm.rank_lost]: rank {last} was lost in step 7, while "
                                    "rank 0 waited in receive of activations from rank {last}, "
                                    "micro-batch 2"),
            "channel-full": (None, "error[comm.rank_lost]: rank {last} was lost in step 7, while "
                                   "rank 0 waited in send of activations to rank {last}, "
                                   "micro-batch 2"),
        }
        for mode, (code, begin) in failures.items():
            for processes in (2, 3):
                with self.subTest(mode=mode, processes=processes):
                    outcome = self.outcome(processes, 1, mode)
                    begin_here = begin.replace("{last}", str(processes - 1))
                    self.assertEqual(outcome.error[:len(begin_here)], begin_here, outcome.err)
                    self.assertEqual(outcome.errors, 1, outcome.err)
                    if code is not None:
                        self.assertEqual(outcome.code, code, outcome.err)
                    self.assertNotEqual(outcome.code, 0)
                    self.assertLess(outcome.seconds, process_harness.ENDS_WITHIN)

    def test_a_failing_rank_ends_all_with_its_error(self):
        failures = {
            "error": (4, r"error[data.broken]: no more samples (rank {last}, step 7, after "
                         "all_reduce of gradients)"),
            "throw": (70, "error[internal]: a rank threw: out of luck (rank {last}, step 7"),
            "leave": (70, "error[comm.rank_left]: "),
            "mismatch": (70, "error[comm.mismatch]: "),
            "busy": (4, "error[data.broken]: no more samples (rank 0, step 7"),
        }
        for mode, (code, begin) in failures.items():
            for processes, ranks_each in ((3, 1), (2, 2)):
                with self.subTest(mode=mode, processes=processes, ranks_each=ranks_each):
                    outcome = self.outcome(processes, ranks_each, mode)
                    begin_here = begin.replace("{last}", str(processes * ranks_each - 1))
                    self.assertEqual(outcome.error[:len(begin_here)], begin_here, outcome.err)
                    self.assertEqual(outcome.errors, 1, outcome.err)
                    self.assertEqual(outcome.code, code, outcome.err)
                    self.assertLess(outcome.seconds, process_harness.ENDS_WITHIN)


if __name__ == "__main__":
    harness.main()
