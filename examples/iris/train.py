"""Tell three species of iris apart: logistic regression in plain Python on Fisher's measurements of 1936."""

import csv
import json
import math
import os
import random
from pathlib import Path

from starforge import report

HERE = Path(__file__).resolve().parent


def main():
    settings = load_settings()
    random.seed(settings["seed"])
    species, rows = load_table(HERE / "iris.csv")
    random.shuffle(rows)
    held_out = rows[: len(rows) // 5]
    train = rows[len(rows) // 5 :]
    weights, first_epoch = load_start(len(species), len(rows[0][0]))

    report.init(hparams=settings)
    loss = accuracy = 0.0
    for epoch in range(first_epoch + 1, settings["epochs"] + 1):
        loss = train_epoch(weights, train, settings["learning_rate"])
        accuracy = sum(predict(weights, features) == label for features, label in held_out) / len(held_out)
        report.log({"loss": loss, "accuracy": accuracy}, step=epoch)
        if epoch % 10 == 0:
            print(f"epoch {epoch:3d}  loss {loss:.4f}  accuracy {accuracy:.3f}", flush=True)
        if epoch % settings["checkpoint_every"] == 0 or epoch == settings["epochs"]:
            save_checkpoint(weights, epoch)
    write_model(species, weights, loss, accuracy)
    report.finish()


def load_settings():
    settings = {"epochs": 60, "learning_rate": 0.1, "seed": 7, "checkpoint_every": 20}
    if "FORGE_SPEC" in os.environ:
        settings.update(json.loads(Path(os.environ["FORGE_SPEC"]).read_text(encoding="utf-8")))
    return settings


def load_table(path):
    """The species' names, and a row a flower: standardised features with a leading 1, and the number of its species."""
    with path.open(encoding="utf-8", newline="") as file:
        table = list(csv.reader(file))[1:]
    species = sorted({row[-1] for row in table})
    columns = [[float(row[i]) for row in table] for i in range(len(table[0]) - 1)]
    means = [sum(column) / len(column) for column in columns]
    spreads = [
        math.sqrt(sum((value - mean) ** 2 for value in column) / len(column)) for column, mean in zip(columns, means)
    ]
    rows = []
    for row in table:
        features = [(float(row[i]) - means[i]) / spreads[i] for i in range(len(means))]
        rows.append(([1.0, *features], species.index(row[-1])))
    return species, rows


def load_start(classes, width):
    """Weights and epoch of the newest committed checkpoint, or zeros."""
    resume_from = os.environ.get("FORGE_RESUME_FROM")
    if resume_from:
        state = json.loads(Path(resume_from, "state.json").read_text(encoding="utf-8"))
        print(f"resuming after epoch {state['epoch']}", flush=True)
        return state["weights"], state["epoch"]
    return [[0.0] * width for _ in range(classes)], 0


def train_epoch(weights, rows, learning_rate):
    """One pass of stochastic gradient descent on the cross-entropy; gives the mean loss met on the way, in nats."""
    loss = 0.0
    for features, label in rows:
        chances = softmax([dot(row, features) for row in weights])
        loss -= math.log(max(chances[label], 1e-12))
        for number, row in enumerate(weights):
            slope = chances[number] - (number == label)
            for i, feature in enumerate(features):
                row[i] -= learning_rate * slope * feature
    return loss / len(rows)


def softmax(scores):
    highest = max(scores)
    powers = [math.exp(score - highest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


def dot(left, right):
    return sum(a * b for a, b in zip(left, right))


def predict(weights, features):
    scores = [dot(row, features) for row in weights]
    return scores.index(max(scores))


def save_checkpoint(weights, epoch):
    folder = Path(os.environ.get("FORGE_CKPT_DIR", "checkpoints"), f"step-{epoch}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").write_text(json.dumps({"epoch": epoch, "weights": weights}), encoding="utf-8")
    report.commit_checkpoint(epoch, str(folder))


def write_model(species, weights, loss, accuracy):
    out = Path(os.environ.get("FORGE_OUT_DIR", "out"))
    out.mkdir(parents=True, exist_ok=True)
    model = {"species": species, "weights": weights, "loss": loss, "accuracy": accuracy}
    (out / "model.json").write_text(json.dumps(model), encoding="utf-8")
    print(f"wrote model.json: accuracy {accuracy:.3f} on flowers it has not seen", flush=True)


if __name__ == "__main__":
    main()
