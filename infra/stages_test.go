package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/testing/golden"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// loadTestStage returns the settings of the stage team, whose file has this text, with a context. The context can name
// another stage.
func loadTestStage(text string, context map[string]string) (Settings, error) {
	context = maps.Clone(context)
	if context == nil {
		context = map[string]string{}
	}
	if context["stage"] == "" {
		context["stage"] = "team"
	}
	files := fstest.MapFS{
		"team.json": {Data: []byte(text)}, schemaFile: {Data: []byte(`{}`)},
		"other.json": {Data: []byte(`{}`)},
	}
	return loadSettings(func(string) fs.FS { return files }, func(name string) any {
		if v, ok := context[name]; ok {
			return v
		}
		return nil
	})
}

const (
	testCertificateARN = "arn:aws:acm:eu-west-1:000000000000:certificate/c"
	validSettings      = `"protected": false, "gatewayDomain": "apis.example.com", "certificateArn": "` +
		testCertificateARN + `"`
)

// TestStageFileIsRead checks that settings come from the stage's file, from the context, and otherwise from the
// defaults.
func TestStageFileIsRead(t *testing.T) {
	s, err := loadTestStage(
		`{"$schema": "schema.json", "table": "global", "multiRegionKey": true, "gatewayDomain": "apis.example.com", `+
			`"certificateArn": "`+testCertificateARN+`", "memory": 512,
		"origins": ["https://a.example.com", "https://b.example.com"], "canary": false, "waf": true,
		"gateway": "both", "gatewayTasks": 2, "gatewayConnectionsPerAddress": 500}`, map[string]string{"logDays": "90", "waf": "true"})
	if err != nil {
		t.Fatalf("loadTestStage() error = %v, want none", err)
	}
	if s.Stage != "team" || !s.Protected || s.Table != "global" || !s.MultiRegionKey {
		t.Errorf("loadTestStage() = %+v, want the stage team, protected, with a global table and a multi-Region key", s)
	}
	if s.GatewayURL != "https://{deployment}.apis.example.com" || s.MemoryMB != 512 || len(s.Origins) != 2 {
		t.Errorf("loadTestStage() = %+v, want the gateway at apis.example.com, 512 MB and 2 origins", s)
	}
	if s.Canary || !s.WAF || s.LogDays != 90 {
		t.Errorf("loadTestStage() = %+v, want no canary, a WAF and logs for 90 days", s)
	}
	if s.GatewayMemoryMB != 512 || s.Bounds["gateway"]["GATEWRIGHT_CONNECTIONS_PER_ADDRESS"] != "500" {
		t.Errorf("loadTestStage() = %+v, want a gateway with 512 MB and 500 connections per address", s)
	}
	s, err = loadTestStage("{"+validSettings+"}", nil)
	if err != nil || s.Protected || s.Table != "single" {
		t.Errorf("loadTestStage(defaults) = %+v, %v, want a single table, not protected, and no error", s, err)
	}
	if s.MultiRegionKey || !s.Canary {
		t.Errorf("loadTestStage(defaults) = %+v, want a canary and a key of one Region", s)
	}
}

// invalidStageFiles are files and contexts of a stage that cause an error, with a part of each line of the error.
var invalidStageFiles = map[string]struct {
	file    string
	context map[string]string
	want    []string // a part of each line
}{
	"misspelled setting": {
		`{` + validSettings + `, "gatewayMemroy": 512}`, nil,
		[]string{`infra/stages/team.json: there is no word "gatewayMemroy": did you mean gatewayMemory?`},
	},
	"setting in another case": {
		`{` + validSettings + `, "WAF": true}`, nil,
		[]string{`there is no word "WAF": did you mean waf?`},
	},
	"unknown setting": {
		`{` + validSettings + `, "colour": "red"}`, nil,
		[]string{`there is no word "colour": docs/aws.md has those`},
	},
	"two errors": {
		`{` + validSettings + `, "wfa": true, "canary": "no"}`, nil,
		[]string{`infra/stages/team.json: canary is true or false`, `did you mean waf?`},
	},
	"text as a number": {
		`{` + validSettings + `, "memory": "512"}`, nil,
		[]string{`memory is a whole number between 128 and 10240`},
	},
	"fraction of a megabyte": {
		`{` + validSettings + `, "memory": 512.5}`, nil,
		[]string{`memory is a whole number between`},
	},
	"memory over the maximum": {
		`{` + validSettings + `, "memory": 20000}`, nil,
		[]string{`memory is a whole number between 128 and 10240`},
	},
	"value that is no choice": {`{` + validSettings + `, "logDays": 31}`, nil, []string{`logDays is one of 1, 3, 5`}},
	"null as a number":        {`{` + validSettings + `, "logDays": null}`, nil, []string{`logDays is one of 1`}},
	"empty limit": {
		`{` + validSettings + `, "gateway": "both", "gatewayConnectionsPerAddress": ""}`, nil,
		[]string{`gatewayConnectionsPerAddress says nothing: say a number, or leave it out`},
	},
	"text as a list": {
		`{` + validSettings + `, "origins": "https://a.example.com"}`, nil,
		[]string{`origins is a list of texts`},
	},
	"address as a domain name": {
		`{"protected": false, "gatewayDomain": "https://apis.example.com"}`, nil,
		[]string{`infra/stages/team.json: gatewayDomain is a name such as apis.example.com`},
	},
	"name of a certificate": {
		`{"protected": false, "gatewayDomain": "apis.example.com", "certificateArn": "c"}`,
		nil,
		[]string{`certificateArn is the ARN of a certificate`},
	},
	"setting of the context": {
		`{` + validSettings + `, "emulator": "ministack"}`, nil,
		[]string{`emulator is for the context`},
	},
	"duplicate setting": {
		`{` + validSettings + `, "waf": true, "waf": false}`, nil,
		[]string{`infra/stages/team.json is no JSON of one object: line 1: duplicate object member name "waf"`},
	},
	"no object":  {`[]`, nil, []string{`infra/stages/team.json is no JSON of one object`}},
	"empty file": {``, nil, []string{`infra/stages/team.json is no JSON of one object`}},
	"null":       {`null`, nil, []string{`infra/stages/team.json is no JSON of one object`}},
	"truncated file": {
		`{"protected": false`, nil,
		[]string{`infra/stages/team.json is no JSON of one object`},
	},
	"too large file": {
		`{` + validSettings + `}` + strings.Repeat(" ", maxStageBytes), nil,
		[]string{`infra/stages/team.json: it has more than 65536 bytes, and no such file needs as many`},
	},
	"no irreversible settings": {
		`{}`, nil,
		[]string{
			`say "table", which AWS cannot change afterwards: it is one of single, global`,
			`say "multiRegionKey", which AWS cannot change`,
		},
	},
	"one of two irreversible settings": {`{"protected": true, "table": "global"}`, nil, []string{`say "multiRegionKey"`}},
	"irreversible setting in the context": {
		`{"table": "global", "gatewayDomain": "apis.example.com", "certificateArn": "` + testCertificateARN + `"}`,
		map[string]string{"multiRegionKey": "true"},
		[]string{`say "multiRegionKey"`},
	},
	"text as protection": {`{"protected": "false"}`, nil, []string{`protected is true or false`}},
	"misspelled protection": {
		`{"protectd": false}`, nil,
		[]string{`there is no word "protectd": did you mean protected?`},
	},
	"trailing comma": {
		"{\n  \"protected\": false,\n  \"waf\": true,\n}\n", nil,
		[]string{`infra/stages/team.json is no JSON of one object: line 3: invalid character ','`},
	},
	"missing value": {
		"{\n  \"protected\": false,\n  \"waf\":\n}\n", nil,
		[]string{`infra/stages/team.json is no JSON of one object: line 4: `},
	},
	"missing domain": {
		`{"protected": false}`, nil,
		[]string{`infra/stages/team.json or the context: gatewayDomain=apis.example.com is needed`},
	},
	"missing certificate": {
		`{"protected": false, "gatewayDomain": "apis.example.com"}`, nil,
		[]string{`infra/stages/team.json or the context: certificateArn is needed`},
	},
	"contradicting context": {
		`{` + validSettings + `, "waf": true}`,
		map[string]string{"waf": "false"},
		[]string{`infra/stages/team.json says "waf": true, and -c waf=false something else: change the file`},
	},
	"contradicting protection in the context": {
		`{` + validSettings + `}`,
		map[string]string{"protected": "true"},
		[]string{`says "protected": false, and -c protected=true something else`},
	},
	"contradicting list in the context": {
		`{` + validSettings + `, "origins": ["https://a.example.com"]}`,
		map[string]string{"origins": "https://b.example.com"},
		[]string{`and -c origins=`},
	},
	"invalid context": {
		`{` + validSettings + `}`,
		map[string]string{"waf": "perhaps"},
		[]string{`infra/stages/team.json or the context: waf is true or false`},
	},
	"unknown stage": {
		`{}`,
		map[string]string{"stage": "taem"},
		[]string{`there is no infra/stages/taem.json: write it, beginning from infra/stages/dev.json or ` +
			`infra/stages/production.json, or name a stage that has one by STAGE=other|team`},
	},
	"schema as stage": {
		`{}`,
		map[string]string{"stage": "schema"},
		[]string{`there is no infra/stages/schema.json`},
	},
	"file in another folder": {
		`{}`,
		map[string]string{"stage": "../team"},
		[]string{`-c stage has 1 to 16 lower-case letters`},
	},
	"tasks without processes": {
		`{` + validSettings + `, "gatewayTasks": 2}`, nil,
		[]string{`infra/stages/team.json or the context: gatewayTasks is for gateways as processes, and gateway=lambda has ` +
			`none: say gateway=both to have them beside the function, gateway=container to have them in its place, or leave ` +
			`gatewayTasks out`},
	},
	"memory without a function": {
		`{` + validSettings + `, "gateway": "container", "gatewayMemory": 1024}`, nil,
		[]string{`infra/stages/team.json or the context: gatewayMemory is for the gateway's function, and ` +
			`gateway=container has none: leave gatewayMemory out`},
	},
	"unknown gateway": {
		`{` + validSettings + `, "gateway": "containers"}`, nil,
		[]string{`infra/stages/team.json: gateway is one of lambda, container, both`},
	},
	"limit of a missing service": {
		`{` + validSettings + `, "gatewayConnectionsPerAddress": 500}`, nil,
		[]string{`gatewayConnectionsPerAddress is for the service gateway, which this context does not have`},
	},
	"limit that is no number": {
		`{` + validSettings + `, "gateway": "both", "gatewayConnectionsPerAddress": "many"}`,
		nil,
		[]string{`gatewayConnectionsPerAddress: GATEWRIGHT_CONNECTIONS_PER_ADDRESS is no number`},
	},
	"line feed in a value": {
		"{" + validSettings + `, "docsAnswers": "a\nb"}`, nil,
		[]string{`docsAnswers is the id of a model`},
	},
}

// TestStageFileErrorsHaveOneLineEach checks that the error has exactly one line for each problem.
func TestStageFileErrorsHaveOneLineEach(t *testing.T) {
	for name, tt := range invalidStageFiles {
		t.Run(name, func(t *testing.T) {
			_, err := loadTestStage(tt.file, tt.context)
			if err == nil {
				t.Fatal("loadTestStage() error = nil, want one")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) {
				t.Errorf("loadTestStage() error has %d lines, want %d:\n%v", len(lines), len(tt.want), err)
			}
			for i, line := range lines {
				if i < len(tt.want) && !strings.Contains(line, tt.want[i]) {
					t.Errorf("line of the error =\n%s\nwant in it\n%s", line, tt.want[i])
				}
			}
		})
	}
}

// TestEmulatorsIgnoreStageFiles checks that an installation in an emulator depends only on the context, even if the
// stage's file is invalid.
func TestEmulatorsIgnoreStageFiles(t *testing.T) {
	s, err := loadTestStage("broken", map[string]string{
		"emulator":   miniStack,
		"gatewayUrl": "http://{deployment}.apis.example.com",
	})
	if err != nil || s.Protected {
		t.Errorf("loadTestStage(emulator) = %+v, %v, want no protection and no error", s, err)
	}
}

// TestUnknownSettingIsRefused checks a misspelled setting, which would otherwise be ignored. It also checks arguments
// that are not settings.
func TestUnknownSettingIsRefused(t *testing.T) {
	err := checkKnownSettings(map[string]any{
		"wfa": "true", "waf": "true", "aws:cdk:enable-asset-metadata": true,
		"@aws-cdk/core:x": true, "emulator": "", "gatewayConnectionsPerAddress": "1",
	})
	if err == nil || err.Error() != `-c wfa: there is no word "wfa": did you mean waf?` {
		t.Errorf("checkKnownSettings(wfa) = %v, want a suggestion of waf", err)
	}
	for _, args := range [][]string{
		{"-c", "wfa=true"},
		{"--context", "wfa=true"},
		{"-c", "stage"},
		{"stage=dev"},
		{"-x", "stage=dev"},
		{"-c"},
	} {
		if err := check(args); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("check(%q) error = %v, want one line", args, err)
		}
	}
}

// TestRepositoryStagesAreValid reads the file of each stage, and adds required settings that the file does not have.
// Files that the team adds can have any settings.
func TestRepositoryStagesAreValid(t *testing.T) {
	for folder, required := range map[string][]string{
		"stages":          {"dev", "production"},
		"testdata/stages": {"everything", "private"},
	} {
		names := stageNames(os.DirFS(folder))
		for _, name := range required {
			if !slices.Contains(names, name) {
				t.Errorf("%s has no stage %s, want it, since docs/aws.md or the Makefile name it", folder, name)
			}
		}
		for _, name := range names {
			values, err := readStage(os.DirFS(folder), folder, name)
			if err != nil {
				t.Errorf("readStage(%s) error = %v, want none", name, err)
				continue
			}
			context := map[string]any{
				"stage": name, "stages": folder, "gatewayDomain": "apis.example.com",
				"certificateArn": testCertificateARN,
			}
			for setting := range values {
				delete(context, setting)
			}
			if _, err := loadSettings(os.DirFS, func(setting string) any { return context[setting] }); err != nil {
				t.Errorf("loadSettings(stage %s) error = %v, want none", name, err)
			}
		}
	}
}

// TestDocumentedStageIsValid checks that the example of a stage's file in docs/aws.md is valid.
func TestDocumentedStageIsValid(t *testing.T) {
	page, err := os.ReadFile("../docs/aws.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tail, _ := strings.Cut(string(page), "```json\n")
	text, _, found := strings.Cut(tail, "```")
	if !found {
		t.Fatal("docs/aws.md shows no file of a stage, want one")
	}
	if s, err := loadTestStage(text, nil); err != nil || !s.Protected || !s.WAF {
		t.Errorf("loadTestStage(the file in docs/aws.md) = %+v, %v, want protection, a WAF and no error", s, err)
	}
}

// schema returns the JSON Schema of a stage's file, for editors.
func schema() any {
	properties := map[string]any{"$schema": map[string]any{"type": "string"}}
	for _, def := range settingDefs() {
		if !def.contextOnly {
			properties[def.name] = def.schema
		}
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "The settings of an installation in AWS (docs/aws.md)",
		"type":    "object", "additionalProperties": false, "properties": properties,
		"anyOf": []any{
			map[string]any{
				"properties": map[string]any{"protected": map[string]any{"const": false}},
				"required":   []string{"protected"},
			},
			map[string]any{"required": irreversible},
		},
	}
}

// TestStageSchemaMatchesTheDeclarations compares the file of the schema with the declared settings.
func TestStageSchemaMatchesTheDeclarations(t *testing.T) {
	text, err := json.MarshalIndent(schema(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, filepath.Join("stages", schemaFile), string(text)+"\n")
}

// TestStageSchemaRefusesInvalidValues checks that the schema, which editors use, refuses the same values as readStage.
func TestStageSchemaRefusesInvalidValues(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("stages", schemaFile))
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(schemaFile, document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	values := []string{
		`true`, `false`, `"text"`, `""`, `0`, `1`, `3`, `128`, `512`, `10241`, `256.5`, `-1`, `null`, `[]`,
		`["a"]`, `[1]`, `{}`, `"single"`, `"arm64"`, `"apis.example.com"`, `"` + testCertificateARN + `"`,
	}
	refused := 0
	for _, def := range append(settingDefs(), settingDef{name: "unheardOf", schema: &huma.Schema{}},
		settingDef{name: "$schema", schema: &huma.Schema{}}) {
		for _, value := range values {
			file := fmt.Sprintf(`{"table": "single", "multiRegionKey": false, %q: %s}`, def.name, value)
			if def.name == "table" || def.name == "multiRegionKey" {
				file = fmt.Sprintf(`{"protected": false, %q: %s}`, def.name, value)
			}
			if def.name == "$schema" && value != `"text"` {
				continue // $schema is only for editors, and readStage does not check it
			}
			document, err := jsonschema.UnmarshalJSON(strings.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			_, readErr := readStage(fstest.MapFS{"team.json": {Data: []byte(file)}}, "infra/stages", "team")
			if err := compiled.Validate(document); (err != nil) != (readErr != nil) {
				t.Errorf("%s: error of the schema = %v, of readStage() = %v, want both or neither", file, err, readErr)
			}
			if readErr != nil {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("no file is refused, want at least one")
	}
}

// TestEveryFieldIsASetting checks that each field of Settings has a declaration with a description, or is derived.
// Functions and the setting docsAnswersADay have the same default and the same maximum.
func TestEveryFieldIsASetting(t *testing.T) {
	derived := []string{"Bounds", "FileDigest"}
	typ := reflect.TypeFor[Settings]()
	for i := range typ.NumField() {
		name := typ.Field(i).Tag.Get("json")
		switch def, ok := settingNamed(name); {
		case slices.Contains(derived, typ.Field(i).Name):
		case !ok:
			t.Errorf("no setting has the name of the field %s, want one", typ.Field(i).Name)
		case !def.contextOnly && def.schema.Description == "":
			t.Errorf("setting %s has no description, want one", name)
		}
	}
	def, _ := settingNamed("docsAnswersADay")
	if fmt.Sprint(def.schema.Default) != fmt.Sprint(config.DefaultDocsAnswersADay) ||
		!config.IsDocsAnswersADay(int(*def.schema.Maximum)) || config.IsDocsAnswersADay(int(*def.schema.Maximum)+1) {
		t.Errorf("docsAnswersADay: default = %v, maximum = %v, want %d and the limit of package config", def.schema.Default,
			*def.schema.Maximum, config.DefaultDocsAnswersADay)
	}
}

// TestSettingsAreDocumented compares the table of settings in docs/aws.md with the declarations.
func TestSettingsAreDocumented(t *testing.T) {
	const path, begin, end = "../docs/aws.md", "<!-- table: stage -->\n", "<!-- end of the table -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, tail, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(tail, end)
	if !found || !closed {
		t.Fatalf("%s has no table of the settings of a stage, want one", path)
	}
	var table strings.Builder
	table.WriteString("\n| word | without it | what it may be | what |\n|---|---|---|---|\n")
	for _, def := range settingDefs() {
		if def.contextOnly {
			continue
		}
		defaultText := def.defaultText
		if def.schema.Default != nil {
			defaultText = fmt.Sprintf("`%v`", def.schema.Default)
		}
		if slices.Contains(irreversible, def.name) {
			defaultText += ", and needed of a protected one"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", def.name, defaultText,
			strings.TrimPrefix(strings.TrimPrefix(def.requirement(), "is one of "), "is "),
			strings.ReplaceAll(def.schema.Description, "|", `\|`))
	}
	golden.Equal(t, path, before+begin+table.String()+"\n"+end+after)
}
