# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

"""Reads OpenMetrics from standard input with the reference parser, and prints the samples as JSON.

Usage: readopenmetrics.py < TEXT. Prints an object with one number for each sample, as in {"a_total{group=b}": 1.0};
labels are sorted by name. Exits with an error if the text is not OpenMetrics, or, with --plain, if it means something
else in the text format of Prometheus; with 77 if there is no parser.
"""

import json
import sys

try:
    from prometheus_client import parser
    from prometheus_client.openmetrics import parser as openmetrics
except ImportError:
    sys.exit(77)


def samples_of(families):
    samples = {}
    for family in families:
        if family.type in ("unknown", "untyped"):
            sys.exit(f"{family.name} has no type")
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}"
            if key in samples:
                sys.exit(f"{key} is given twice")
            samples[key] = sample.value
    return samples


def main():
    text = sys.stdin.buffer.read().decode()
    samples = samples_of(openmetrics.text_string_to_metric_families(text))
    if "--plain" in sys.argv and samples_of(parser.text_string_to_metric_families(text)) != samples:
        sys.exit("The text means something else in the text format of Prometheus")
    json.dump(samples, sys.stdout)


if __name__ == "__main__":
    main()
