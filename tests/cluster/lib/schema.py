#!/usr/bin/env python3
"""Checks JSON against its schema: schema.py NAME [--lines] <JSON. NAME: status, plan, report, or cache.

Here a member that the schema does not name is a fault, though the schema itself allows it, so that the schemas have
every member that is written. --lines: each line is a JSON text. schema.py --schemas checks the schemas themselves.
"""
import glob
import json
import os
import sys

# Debian's, whatever python3 this is.
sys.path.append("/usr/lib/python3/dist-packages")
from jsonschema import Draft202012Validator  # noqa: E402

SCHEMAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../docs/schemas")


def load(name):
    with open(f"{SCHEMAS}/{name}.schema.json", encoding="utf-8") as file:
        return json.load(file)


def objects(schema):
    """Every schema of an object in it."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for part in schema.values():
            yield from objects(part)


def main():
    if sys.argv[1] == "--schemas":
        for path in glob.glob(f"{SCHEMAS}/*.schema.json"):
            schema = load(os.path.basename(path).removesuffix(".schema.json"))
            Draft202012Validator.check_schema(schema)
            for part in objects(schema):
                missing = set(part.get("required", [])) - set(part["properties"])
                assert not missing, (path, missing)
                assert all("description" in p or "const" in p or "enum" in p for p in part["properties"].values()), path
        return
    schema = load(sys.argv[1])
    for part in list(objects(schema)):
        part["additionalProperties"] = False
    text = sys.stdin.read()
    texts = text.splitlines() if "--lines" in sys.argv else [text]
    assert texts, "there is no JSON"
    for one in texts:
        faults = list(Draft202012Validator(schema).iter_errors(json.loads(one)))
        for fault in faults:
            print(f"{fault.json_path}: {fault.message}"[:400], file=sys.stderr)
        if faults:
            sys.exit(f"not as docs/schemas/{sys.argv[1]}.schema.json says:\n{one}")


main()
