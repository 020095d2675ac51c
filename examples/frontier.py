"""The Pareto frontier of GPT-2 small on eight H100, from Python: `python -m tapestry.examples.frontier [SECONDS]`."""

import sys
from pathlib import Path

import tapestry
from tapestry.optimizer import knee

MODEL = Path(__file__).parent / "models" / "gpt2_small_b1_s1024.onnx"


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    result = tapestry.optimize(
        MODEL,
        "dgx-h100",
        objectives=("time_s", "peak_memory_bytes", "traffic_bytes", "energy_j"),
        constraints=("peak_memory_bytes<=500MiB",),
        seconds=seconds,
        seed=0,
    )
    for plan in sorted(result.frontier, key=lambda plan: plan.cost["time_s"]):
        print(
            f"{plan.cost['time_s'] * 1e3:8.3f} ms  {plan.cost['peak_memory_bytes'] / 2**20:7.1f} MiB  "
            f"{plan.cost['traffic_bytes'] / 2**20:8.1f} MiB  {plan.cost['energy_j']:7.2f} J"
        )

    chosen = knee(result.frontier, result.objectives)
    checked = tapestry.verify(result, chosen, execute=False)
    print(f"\nThe knee, plan {chosen.id}: sharding proven, memory and traffic as predicted: {checked.ok}")
    for move in chosen.moves:
        print(f"  {move}")


if __name__ == "__main__":
    main()
