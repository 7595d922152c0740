"""Training data: nothing there, columns that are not, rows that do not fit."""

import re
from typing import Final

from starforge.diagnosis.answer import Category, Confidence
from starforge.diagnosis.rule import JSON_ERROR, Pattern, Rule, Weight, error, raised

RULES: Final = (
    Rule(
        kind="dataset_empty",
        category=Category.DATASET_EMPTY,
        patterns=(
            error("num_samples should be a positive integer value, but got num_samples=0", "ValueError"),
            error("corresponds to no data!", "ValueError"),
            error("doesn't contain any data files", "EmptyDatasetError|FileNotFoundError|DataFilesNotFoundError"),
            error("No (supported) data files", "DataFilesNotFoundError|EmptyDatasetError"),
            error("Train dataloader is empty", "AssertionError|ValueError"),
            error("Validation dataloader is empty", "AssertionError|ValueError"),
            error("The train dataset is empty", "ValueError"),
        ),
        summary="There is no data to train on, or none is left after filtering.",
        advice="Look at the path, the split and the filters: a limit of length that is too short removes every row.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/utils/data/sampler.py",
    ),
    Rule(
        kind="split_unknown",
        category=Category.DATASET_SCHEMA,
        patterns=(
            error('Unknown split "', "ValueError", r"(?P<name>[^\"]{1,100})\""),
            error("Bad split: ", "ValueError", r"(?P<name>\w{1,100})\. Available splits"),
        ),
        summary="The dataset has no split called {name}.",
        advice="Name one of the splits that the line lists, or let dataset_test_split be one of them.",
        source="https://github.com/huggingface/datasets/blob/main/src/datasets/arrow_reader.py",
    ),
    Rule(
        kind="builder_config",
        category=Category.CONFIG_KEY,
        patterns=(
            error("BuilderConfig '", "ValueError", r"(?P<name>[^']{1,100})' not found"),
            error("Config name is missing", "ValueError", r"(?P<name>)"),
        ),
        summary="The dataset has several configurations, and {name} is none of them.",
        advice="Name one of those that the line lists (dataset_config).",
        source="https://github.com/huggingface/datasets/blob/main/src/datasets/builder.py",
    ),
    Rule(
        kind="column_missing",
        category=Category.DATASET_SCHEMA,
        patterns=(
            error("not in the dataset. Current columns in the dataset", "ValueError|KeyError"),
            error("not in the dataset", "KeyError|ValueError", r".{0,80}[Cc]olumns"),
            error("Column name ", "ValueError", r".{0,200} not in the dataset"),
            error("No columns in the dataset match the model's forward method signature", "ValueError"),
            error("Neither ", "KeyError|ValueError", r".{0,200}columns? (?:found|in the dataset)"),
        ),
        summary="The dataset does not have the columns that are asked for.",
        advice="Compare the names with those that the line lists; a split (train) is no column: choose it first.",
        source="https://github.com/huggingface/datasets/blob/main/src/datasets/arrow_dataset.py",
    ),
    Rule(
        kind="row_key_missing",
        category=Category.DATASET_SCHEMA,
        patterns=(error("'", "KeyError", r"(?P<name>[\w .-]{1,80})'$", starts=True),),
        summary="Rows of the dataset have no column {name}.",
        advice="Rename the column, or tell the method which one it is; the method's page lists what it reads.",
        source="https://github.com/huggingface/datasets/blob/main/src/datasets/formatting/formatting.py",
        confidence=Confidence.LIKELY,
        above=re.compile(r"site-packages/(?:datasets/formatting/formatting|trl/data_utils)\.py"),
    ),
    Rule(
        kind="rows_differ",
        category=Category.DATASET_SCHEMA,
        patterns=(
            error("All the data files must have the same columns", "DatasetGenerationCastError|DatasetGenerationError"),
            raised("CastError|DatasetGenerationCastError", "CastError"),
            error("Couldn't cast", "TypeError|ArrowInvalid|ValueError"),
            error("JSON parse error: ", "ArrowInvalid"),
            error("Error tokenizing data", "ParserError"),
            error("cannot mix list and non-list, non-null values", "ArrowInvalid"),
        ),
        summary="Files or rows of the data do not have the same columns and types.",
        advice="Make every row have the same fields with the same types; the line names where they differ.",
        source="https://github.com/huggingface/datasets/blob/main/src/datasets/table.py",
    ),
    Rule(
        kind="deepspeed_file_not_json",
        category=Category.DEEPSPEED_CONFIG,
        patterns=(JSON_ERROR,),
        summary="DeepSpeed's configuration is no valid JSON.",
        advice="Correct the file at the line and column that the error names: no comments, no comma after the last "
        "entry.",
        source="https://docs.python.org/3/library/json.html#json.JSONDecodeError",
        confidence=Confidence.LIKELY,
        above=re.compile(r"(?:integrations/deepspeed|deepspeed/runtime/config\w{0,20}|accelerate/utils/deepspeed)\.py"),
    ),
    Rule(
        kind="model_file_not_json",
        category=Category.FILE_CORRUPT,
        patterns=(JSON_ERROR,),
        summary="A JSON file of the model or checkpoint is incomplete, or is something else.",
        advice="Download or copy it again: a transfer that broke off, a Git LFS pointer, or a page of errors that was "
        "saved in its place, looks like this.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/configuration_utils.py",
        confidence=Confidence.LIKELY,
        above=re.compile(
            r"/transformers/(?:configuration_utils|tokenization_utils\w{0,10}|processing_utils|image_processing\w{0,10}"
            r"|utils/hub|generation/configuration_utils|trainer_callback)\.py"
        ),
    ),
    Rule(
        kind="json_broken",
        category=Category.DATASET_SCHEMA,
        patterns=(
            Pattern("JSONDecodeError", re.compile(r"(?:json\.decoder\.|json\.)?JSONDecodeError: "), is_error=True),
            error("'utf-8' codec can't decode byte", "UnicodeDecodeError"),
        ),
        summary="A text that it read is no valid JSON, or no UTF-8: most likely a line of the data.",
        advice="Check the file up to the place that the line names; a file of JSON lines has one object a line. "
        "Where a model or a service wrote the text, look at what it wrote.",
        source="https://docs.python.org/3/library/json.html#json.JSONDecodeError",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="lengths_differ",
        category=Category.DATASET_SCHEMA,
        patterns=(
            error("Unable to create tensor, you should probably activate truncation and/or padding", "ValueError"),
            error("stack expects each tensor to be equal size", "RuntimeError"),
            error("expected sequence of length ", "ValueError", r"\d+ at dim \d+ \(got \d+\)"),
        ),
        summary="The examples of one batch are of different lengths.",
        advice="Pad them in the collator, or truncate them to one length; check that labels are padded as well.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/tokenization_utils_base.py",
    ),
    Rule(
        kind="chat_roles",
        category=Category.DATASET_SCHEMA,
        patterns=(
            error("Conversation roles must alternate", "TemplateError"),
            error("Only user, assistant and system roles are supported", "TemplateError"),
            error("System role not supported", "TemplateError"),
        ),
        summary="A conversation in the data does not follow the model's chat template.",
        advice="Let roles alternate as the template wants, or use a template that fits the data.",
        source="https://huggingface.co/docs/transformers/chat_templating",
    ),
    Rule(
        kind="chat_template_missing",
        category=Category.TOKENIZER_VOCAB,
        patterns=(
            error("tokenizer.chat_template is not set", "ValueError"),
            error("does not have a chat template", "ValueError"),
        ),
        summary="The tokenizer has no chat template, and the data are conversations.",
        advice="Use an instruct model, or give a chat template (chat_template_path).",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/tokenization_utils_base.py",
    ),
    Rule(
        kind="pad_token_missing",
        category=Category.TOKENIZER_VOCAB,
        patterns=(
            error("Asking to pad but the tokenizer does not have a padding token", "ValueError"),
            error("Cannot handle batch sizes > 1 if no padding token is defined", "ValueError"),
        ),
        summary="The tokenizer has no padding token.",
        advice="Set one: tokenizer.pad_token = tokenizer.eos_token, and the same in the model's configuration.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/tokenization_utils_base.py",
    ),
    Rule(
        kind="dataset_generation",
        category=Category.DATASET_SCHEMA,
        patterns=(error("An error occurred while generating the dataset", "DatasetGenerationError"),),
        summary="The dataset could not be built from its files.",
        advice="The reason stands in the errors above this line.",
        source="https://github.com/huggingface/datasets/blob/main/src/datasets/builder.py",
        weight=Weight.LAST,
        confidence=Confidence.LOW,
    ),
)
