"""Published tables of Megatron beside what the simulator of many devices says.

python -m bench.megatron           # each row, and the mean and worst difference
python -m bench.megatron --fit     # the four numbers fitted on four rows, as `weft.dist.transformer` has them
"""

from __future__ import annotations

import argparse

import numpy as np

from weft.dist.machines import machine
from weft.dist.transformer import SELENE, Calibration, Gpt, Split, training_step

#: SC'21, table 1: name, hidden, layers, heads, devices, tensor, pipe, chunks, micro-batch, batch, TFLOP/s a device.
#: Rows 1 to 4 have no pipeline: their scripts use torch's DDP, which overlaps the combining of gradients.
SC21 = (
    ("1.7B", 2304, 24, 24, 32, 1, 1, 1, 16, 512, 137),
    ("3.6B", 3072, 30, 32, 64, 2, 1, 1, 16, 512, 138),
    ("7.5B", 4096, 36, 32, 128, 4, 1, 1, 16, 512, 142),
    ("18B", 6144, 40, 48, 256, 8, 1, 1, 8, 1024, 135),
    ("39B", 8192, 48, 64, 512, 8, 2, 1, 4, 1536, 138),
    ("76B", 10240, 60, 80, 1024, 8, 4, 3, 2, 1792, 140),
    ("145B", 12288, 80, 96, 1536, 8, 8, 2, 2, 2304, 148),
    ("310B", 16384, 96, 128, 1920, 8, 16, 2, 1, 2160, 155),
    ("530B", 20480, 105, 128, 2520, 8, 35, 3, 1, 2520, 163),
    ("1T", 25600, 128, 160, 3072, 8, 64, 1, 1, 3072, 163),
)
FITTED = ("1.7B", "18B", "76B", "530B")
#: least and greatest of each number of a `Calibration`
LEAST, MOST = (0.4, 0.0, 5.0, 0.3), (0.95, 2000.0, 200.0, 1.0)


def rate(row: tuple[object, ...], calibration: Calibration = SELENE) -> float:
    """TFLOP/s a device of a row of the table, simulated."""
    _, hidden, layers, heads, devices, tensor, pipe, chunks, micro, batch, _ = row
    split = Split(devices, tensor, pipe, chunks, micro, batch, overlapped=pipe == 1)  # type: ignore[arg-type]
    model = Gpt(hidden, layers, heads)  # type: ignore[arg-type]
    return training_step(model, split, machine("a100-selene"), calibration).rate


def differences(calibration: Calibration = SELENE) -> dict[str, float]:
    """For each row how far the simulated rate is from the published one."""
    return {row[0]: rate(row, calibration) / row[-1] - 1 for row in SC21}


def fit(start: tuple[float, ...] = (0.75, 100.0, 60.0, 0.6), rounds: int = 15) -> Calibration:
    """Least squares over the fitted rows by Levenberg and Marquardt's method, within bounds."""
    rows = [row for row in SC21 if row[0] in FITTED]

    def miss(x: np.ndarray) -> np.ndarray:
        return np.array([rate(row, Calibration(*x)) / row[-1] - 1 for row in rows])

    x, damping = np.array(start), 1e-2
    least, most = np.array(LEAST), np.array(MOST)
    unit = most - least
    for _ in range(rounds):
        here = miss(x)
        slope = np.stack([(miss(x + e * 1e-4 * unit) - here) / 1e-4 for e in np.eye(len(x))], axis=1)
        step = np.linalg.solve(slope.T @ slope + damping * np.eye(len(x)), -slope.T @ here) * unit
        there = np.clip(x + step, least, most)
        better = float(np.sum(miss(there) ** 2)) < float(np.sum(here**2))
        x, damping = (there, damping / 3) if better else (x, damping * 4)
    return Calibration(*map(float, x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true")
    calibration = fit() if parser.parse_args().fit else SELENE
    print(calibration)
    found = differences(calibration)
    for row in SC21:
        mark = "fitted" if row[0] in FITTED else ""
        print(f"{row[0]:5} published {row[-1]} simulated {rate(row, calibration):6.1f} {found[row[0]]:+6.1%} {mark}")
    sizes = [abs(d) for d in found.values()]
    print(f"mean {sum(sizes) / len(sizes):.2%}, worst {max(sizes):.2%}")


if __name__ == "__main__":
    main()
