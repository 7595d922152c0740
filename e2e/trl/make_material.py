"""Makes what the leg trains on: a model of 100 000 parameters, its tokenizer and small data sets. Runs in the image.

    python make_material.py FOLDER

The same bytes every time, from nothing but this file: `FOLDER/model` and `FOLDER/<data set>/{train,test}.jsonl`.
"""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import torch  # type: ignore[import-not-found]  # the image has it
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # type: ignore[import-not-found]  # the image has it
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM  # type: ignore[import-not-found]  # the image has it

ROWS = 200
TEST_ROWS = 20
END, BEGIN_TURN, END_TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
METALS = ("iron", "copper", "silver", "gold", "tin", "lead", "zinc", "nickel")
THINGS = ("a bell", "a hinge", "the anvil", "two nails", "a lamp", "the gate", "a kettle", "some wire")
PEOPLE = ("the smith", "her brother", "a tinker", "the miller", "our guest", "an old clerk")
DEEDS = ("forges", "mends", "sells", "weighs", "polishes", "wants")


def make_sentences(seed: int) -> Iterator[str]:
    chance = random.Random(seed)  # noqa: S311 - words for a test
    while True:
        person, deed, thing, metal = (chance.choice(words) for words in (PEOPLE, DEEDS, THINGS, METALS))
        yield f"{person} {deed} {thing} of {metal} ."


def make_tokenizer() -> PreTrainedTokenizerFast:
    bytes_of = pre_tokenizers.ByteLevel
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = bytes_of(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    sentences = make_sentences(1)
    trainer = trainers.BpeTrainer(
        vocab_size=480,
        special_tokens=[END, BEGIN_TURN, END_TURN],
        initial_alphabet=bytes_of.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((next(sentences) for _ in range(800)), trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_TURN, pad_token=END)
    made.chat_template = CHAT
    return made


def make_model(folder: Path) -> None:
    tokenizer = make_tokenizer()
    torch.manual_seed(3)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_rows(folder: Path, rows: list[dict[str, object]]) -> None:
    folder.mkdir(parents=True)
    for split, part in (("train", rows[TEST_ROWS:]), ("test", rows[:TEST_ROWS])):
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in part), encoding="utf-8")


def ask(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def answer(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def make_data(folder: Path) -> None:
    said = make_sentences(2)
    good = [next(said) for _ in range(ROWS)]
    metals = [METALS[number % len(METALS)] for number in range(ROWS)]
    asked = [ask(f"who has {metal} ?") for metal in metals]
    bad = answer("nobody nobody nobody .")
    pairs = list(zip(asked, map(answer, good), strict=True))
    write_rows(folder / "sft", [{"messages": question + reply} for question, reply in pairs])
    write_rows(folder / "dpo", [{"prompt": question, "chosen": reply, "rejected": bad} for question, reply in pairs])
    write_rows(
        folder / "kto",
        [
            {"prompt": question, "completion": reply if number % 2 else bad, "label": bool(number % 2)}
            for number, (question, reply) in enumerate(pairs)
        ],
    )
    write_rows(folder / "reward", [{"chosen": q + reply, "rejected": q + bad} for q, reply in pairs])
    write_rows(folder / "prompts", [{"prompt": q, "metal": metal} for q, metal in zip(asked, metals, strict=True)])
    write_rows(folder / "wrong-column", [{"sentence": sentence} for sentence in good])


if __name__ == "__main__":
    target = Path(sys.argv[1])
    make_model(target / "model")
    make_data(target)
