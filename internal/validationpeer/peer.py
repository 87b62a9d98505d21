"""Checks requests with openapi-core.

It reads the paths of descriptions from its arguments, and requests from stdin: a JSON array of
[description, path template, method, target, header fields, body] on each line, with bytes as texts in Latin-1. For each
line it writes a line: the list of the request's errors, which is empty for a valid request.

openapi-core leaves the parsing of requests to frameworks. Request parses them like Werkzeug, which openapi-core depends
on. Request also has the names that only openapi-core expects: it reads styles by the names of URI templates, such as
";color*", and no framework has these.
"""

import json
import re
import sys
import urllib.parse
import warnings

from jsonschema import Draft202012Validator
from jsonschema_path import SchemaPath
from openapi_core import V30RequestValidator, V31RequestValidator
from openapi_core.casting.schemas import oas30_write_schema_casters_factory, oas31_schema_casters_factory
from openapi_core.datatypes import RequestParameters
from openapi_core.validation.schemas import oas30_write_schema_validators_factory, oas31_schema_validators_factory
from werkzeug.datastructures import Headers, ImmutableMultiDict
from werkzeug.http import parse_cookie


class Cached:
    """Keeps what a factory of openapi-core creates for each schema, which takes most of the time."""

    def __init__(self, factory):
        self.factory, self.known = factory, {}

    def create(self, spec, schema, *args, **options):
        key = schema
        if key not in self.known:
            self.known[key] = self.factory.create(spec, schema, *args, **options)
        return self.known[key]


class Description:
    """A description, the validator for it, and its parameters by path template and method."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.document = json.load(file)
        spec = SchemaPath.from_dict(self.document)
        if self.document["openapi"].startswith("3.0"):
            new, validators, casters = V30RequestValidator, oas30_write_schema_validators_factory, oas30_write_schema_casters_factory
        else:
            new, validators, casters = V31RequestValidator, oas31_schema_validators_factory, oas31_schema_casters_factory
        self.validator = new(
            spec,
            schema_validators_factory=Cached(validators),
            schema_casters_factory=Cached(casters),
            # Its own check is that of draft 3, which has no offsets.
            extra_format_validators={"time": lambda v: Draft202012Validator.FORMAT_CHECKER.conforms(v, "time")},
        )
        self.parameters = {
            (template, method): item.get("parameters", []) + item[method].get("parameters", [])
            for template, item in self.document["paths"].items()
            for method in item
            if method != "parameters"
        }
        self.templates = {
            template: re.compile(re.sub(r"\\\{([^{}]*)\\\}", r"(?P<\1>[^/]*)", re.escape(template)))
            for template in self.document["paths"]
        }

    def schema(self, schema):
        while isinstance(schema, dict) and "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            schema = self.document["components"]["schemas"][name]
        return schema if isinstance(schema, dict) else {}


class Request:
    """A request as openapi-core expects it."""

    host_url = "http://localhost"

    def __init__(self, description, template, method, target, fields, body):
        self.path = self.path_pattern = template
        self.method = method.lower()
        self.body = body.encode("latin-1")
        path, _, query = target.partition("?")
        fields = [(name, bytes(value, "latin-1").decode("utf-8").strip(" \t")) for name, value in fields]
        self.header = {}
        for name, value in fields:
            name = name.lower()
            self.header[name] = f"{self.header[name]},{value}" if name in self.header else value
        self.content_type = self.header.get("content-type", "application/octet-stream")
        self.query = urllib.parse.parse_qsl(
            query.encode("latin-1").decode("utf-8"), keep_blank_values=True, errors="strict"
        )
        self.cookie = [
            (name, unquote_cookie(value))
            for name, value in parse_cookie(self.header.get("cookie", "").encode("utf-8").decode("latin-1")).items(multi=True)
        ]
        segments = description.templates[template].fullmatch(path).groupdict()
        self.segments = {
            name: urllib.parse.unquote(segment.encode("latin-1").decode("utf-8"), errors="strict")
            for name, segment in segments.items()
        }
        for parameter in description.parameters[template, self.method]:
            self.add_names(description, parameter)
        self.parameters = RequestParameters(
            query=ImmutableMultiDict(self.query),
            header=Headers(list(self.header.items())),
            cookie=ImmutableMultiDict(self.cookie),
            path=self.segments,
        )

    def add_names(self, description, parameter):
        """Adds the names that openapi-core expects for a style."""
        name, style = parameter["name"], parameter.get("style")
        if style in ("label", "matrix"):
            prefix = "." if style == "label" else ";"
            self.segments[prefix + name] = self.segments[prefix + name + "*"] = self.segments[name]
        if style == "spaceDelimited":
            self.query = [(n, v.replace(" ", "%20") if n == name else v) for n, v in self.query]
        schema = description.schema(parameter.get("schema", {}))
        if parameter["in"] in ("query", "cookie") and schema.get("type") == "object" and style != "deepObject":
            pairs = self.query if parameter["in"] == "query" else self.cookie
            named = [f"{n}={v}" for n, v in pairs if n in schema["properties"]]
            if parameter.get("explode", True) and named:
                pairs.append((name, "&".join(named)))


def unquote_cookie(value):
    """Removes escapes, as the style form says. RFC 6265 has none, so malformed ones are no error."""
    try:
        return urllib.parse.unquote(value, errors="strict")
    except UnicodeDecodeError:
        return value


def describe(error):
    """Returns the messages of an error, each with the place of the request. A value that does not match its schema has
    one message for each violation. Others have one message with the types of all causes."""
    place = type(error).__name__
    if hasattr(error, "name"):
        place = f"{error.location} {error.name}"
    causes = []
    while error is not None:
        if getattr(error, "schema_errors", None):
            return [f"{place}: {'/'.join(map(str, e.absolute_path))} {e.message}"[:300] for e in error.schema_errors]
        try:
            message = str(error)
        except Exception:  # some messages of openapi-core expect bytes
            message = ""
        causes.append(f"{type(error).__name__} {message}"[:150])
        error = error.__cause__
    return [f"{place}: {' | '.join(causes)}"]


def errors(descriptions, line):
    """Returns the errors of the request in a line."""
    index, *request = json.loads(line)
    description = descriptions[index]
    try:
        parsed = Request(description, *request)
    except UnicodeDecodeError:
        return ["the request is not UTF-8"]
    try:
        return [text for error in description.validator.iter_errors(parsed) for text in describe(error)]
    except Exception as error:
        return ["openapi-core fails: " + text for text in describe(error)]


def main():
    warnings.simplefilter("ignore")
    descriptions = [Description(path) for path in sys.argv[1:]]
    for line in sys.stdin.buffer:
        print(json.dumps(errors(descriptions, line)), flush=False)


main()
