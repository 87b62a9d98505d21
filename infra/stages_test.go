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

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/thirdparty/jsonschema"
)

// stage reads a file's text as that of the stage team, and a context.
func stage(text string, context map[string]string) (Settings, error) {
	context = maps.Clone(context)
	if context == nil {
		context = map[string]string{}
	}
	if context["stage"] == "" {
		context["stage"] = "team"
	}
	files := fstest.MapFS{"team.json": {Data: []byte(text)}, schemaFile: {Data: []byte(`{}`)}, "other.json": {Data: []byte(`{}`)}}
	return settingsOfStage(func(string) fs.FS { return files }, func(name string) any {
		if v, ok := context[name]; ok {
			return v
		}
		return nil
	})
}

const (
	arn  = "arn:aws:acm:eu-west-1:000000000000:certificate/c"
	said = `"protected": false, "gatewayDomain": "apis.example.com", "certificateArn": "` + arn + `"`
)

func TestStageIsWhatItsFileSays(t *testing.T) {
	s, err := stage(`{"$schema": "schema.json", "table": "global", "multiRegionKey": true, "gatewayDomain": "apis.example.com", "certificateArn": "`+arn+`", "memory": 512,
		"origins": ["https://a.example.com", "https://b.example.com"], "canary": false, "waf": true, "gateway": "both", "gatewayTasks": 2, "gatewayConnectionsPerAddress": 500}`, map[string]string{"logDays": "90", "waf": "true"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Stage != "team" || !s.Protected || s.Table != "global" || !s.MultiRegionKey || s.GatewayURL != "https://{deployment}.apis.example.com" || s.MemoryMB != 512 ||
		len(s.Origins) != 2 || s.Canary || !s.WAF || s.LogDays != 90 || s.GatewayMemoryMB != 512 || s.Bounds["gateway"]["GATEWRIGHT_CONNECTIONS_PER_ADDRESS"] != "500" {
		t.Errorf("the settings are %+v", s)
	}
	if s, err := stage("{"+said+"}", nil); err != nil || s.Protected || s.Table != "single" || s.MultiRegionKey || !s.Canary {
		t.Errorf("of one to try things with they are %+v, error %v", s, err)
	}
}

// TestWrongStageFileIsToldInALineEach names the file, the word and what to do.
func TestWrongStageFileIsToldInALineEach(t *testing.T) {
	for name, tt := range map[string]struct {
		file    string
		context map[string]string
		want    []string // of each line
	}{
		"a typing error":              {`{` + said + `, "gatewayMemroy": 512}`, nil, []string{`infra/stages/team.json: there is no word "gatewayMemroy": did you mean gatewayMemory?`}},
		"another case":                {`{` + said + `, "WAF": true}`, nil, []string{`there is no word "WAF": did you mean waf?`}},
		"no word at all":              {`{` + said + `, "colour": "red"}`, nil, []string{`there is no word "colour": docs/aws.md has those`}},
		"two":                         {`{` + said + `, "wfa": true, "canary": "no"}`, nil, []string{`infra/stages/team.json: canary is true or false`, `did you mean waf?`}},
		"a text for a number":         {`{` + said + `, "memory": "512"}`, nil, []string{`memory is a whole number between 128 and 10240`}},
		"half a megabyte":             {`{` + said + `, "memory": 512.5}`, nil, []string{`memory is a whole number between`}},
		"too much":                    {`{` + said + `, "memory": 20000}`, nil, []string{`memory is a whole number between 128 and 10240`}},
		"none of some":                {`{` + said + `, "logDays": 31}`, nil, []string{`logDays is one of 1, 3, 5`}},
		"a null":                      {`{` + said + `, "logDays": null}`, nil, []string{`logDays is one of 1`}},
		"a bound that says nothing":   {`{` + said + `, "gateway": "both", "gatewayConnectionsPerAddress": ""}`, nil, []string{`gatewayConnectionsPerAddress says nothing: say a number, or leave it out`}},
		"a text for a list":           {`{` + said + `, "origins": "https://a.example.com"}`, nil, []string{`origins is a list of texts`}},
		"an address for a name":       {`{"protected": false, "gatewayDomain": "https://apis.example.com"}`, nil, []string{`infra/stages/team.json: gatewayDomain is a name such as apis.example.com`}},
		"a certificate's name":        {`{"protected": false, "gatewayDomain": "apis.example.com", "certificateArn": "c"}`, nil, []string{`certificateArn is the ARN of a certificate`}},
		"a word of the context":       {`{` + said + `, "emulator": "ministack"}`, nil, []string{`emulator is for the context`}},
		"said twice":                  {`{` + said + `, "waf": true, "waf": false}`, nil, []string{`infra/stages/team.json is no JSON of one object: line 1: duplicate object member name "waf"`}},
		"no object":                   {`[]`, nil, []string{`infra/stages/team.json is no JSON of one object`}},
		"nothing":                     {``, nil, []string{`infra/stages/team.json is no JSON of one object`}},
		"null":                        {`null`, nil, []string{`infra/stages/team.json is no JSON of one object`}},
		"half of it":                  {`{"protected": false`, nil, []string{`infra/stages/team.json is no JSON of one object`}},
		"a lot":                       {`{` + said + `}` + strings.Repeat(" ", mostStageBytes), nil, []string{`infra/stages/team.json: it has more than 65536 bytes, and no such file needs as many`}},
		"nothing decided":             {`{}`, nil, []string{`say "table", which AWS cannot change afterwards: it is one of single, global`, `say "multiRegionKey", which AWS cannot change`}},
		"half decided":                {`{"protected": true, "table": "global"}`, nil, []string{`say "multiRegionKey"`}},
		"decided elsewhere":           {`{"table": "global", "gatewayDomain": "apis.example.com", "certificateArn": "` + arn + `"}`, map[string]string{"multiRegionKey": "true"}, []string{`say "multiRegionKey"`}},
		"no protection, by a text":    {`{"protected": "false"}`, nil, []string{`protected is true or false`}},
		"no protection, mistyped":     {`{"protectd": false}`, nil, []string{`there is no word "protectd": did you mean protected?`}},
		"a comma too many":            {"{\n  \"protected\": false,\n  \"waf\": true,\n}\n", nil, []string{`infra/stages/team.json is no JSON of one object: line 3: invalid character ','`}},
		"no value":                    {"{\n  \"protected\": false,\n  \"waf\":\n}\n", nil, []string{`infra/stages/team.json is no JSON of one object: line 4: `}},
		"no domain":                   {`{"protected": false}`, nil, []string{`infra/stages/team.json or the context: gatewayDomain=apis.example.com is needed`}},
		"no certificate":              {`{"protected": false, "gatewayDomain": "apis.example.com"}`, nil, []string{`infra/stages/team.json or the context: certificateArn is needed`}},
		"a context that contradicts":  {`{` + said + `, "waf": true}`, map[string]string{"waf": "false"}, []string{`infra/stages/team.json says "waf": true, and -c waf=false something else: change the file`}},
		"and once more":               {`{` + said + `}`, map[string]string{"protected": "true"}, []string{`says "protected": false, and -c protected=true something else`}},
		"a list that does":            {`{` + said + `, "origins": ["https://a.example.com"]}`, map[string]string{"origins": "https://b.example.com"}, []string{`and -c origins=`}},
		"a wrong context":             {`{` + said + `}`, map[string]string{"waf": "perhaps"}, []string{`infra/stages/team.json or the context: waf is true or false`}},
		"no such stage":               {`{}`, map[string]string{"stage": "taem"}, []string{`there is no infra/stages/taem.json: write it, beginning from infra/stages/dev.json or infra/stages/production.json, or name a stage that has one by STAGE=other|team`}},
		"the schema is no stage":      {`{}`, map[string]string{"stage": "schema"}, []string{`there is no infra/stages/schema.json`}},
		"a file of another folder":    {`{}`, map[string]string{"stage": "../team"}, []string{`-c stage has 1 to 16 lower-case letters`}},
		"tasks of no processes":       {`{` + said + `, "gatewayTasks": 2}`, nil, []string{`infra/stages/team.json or the context: gatewayTasks is for gateways as processes, and gateway=lambda has none: say gateway=both to have them beside the function, gateway=container to have them in its place, or leave gatewayTasks out`}},
		"memory of no function":       {`{` + said + `, "gateway": "container", "gatewayMemory": 1024}`, nil, []string{`infra/stages/team.json or the context: gatewayMemory is for the gateway's function, and gateway=container has none: leave gatewayMemory out`}},
		"another way to serve":        {`{` + said + `, "gateway": "containers"}`, nil, []string{`infra/stages/team.json: gateway is one of lambda, container, both`}},
		"a bound of no such service":  {`{` + said + `, "gatewayConnectionsPerAddress": 500}`, nil, []string{`gatewayConnectionsPerAddress is for the service gateway, which this context does not have`}},
		"a bound that is no number":   {`{` + said + `, "gateway": "both", "gatewayConnectionsPerAddress": "many"}`, nil, []string{`gatewayConnectionsPerAddress: GATEWRIGHT_CONNECTIONS_PER_ADDRESS is no number`}},
		"a line's end within a value": {"{" + said + `, "docsAnswers": "a\nb"}`, nil, []string{`docsAnswers is the id of a model`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := stage(tt.file, tt.context)
			if err == nil {
				t.Fatal("it is taken")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) {
				t.Errorf("it says in %d lines, want %d:\n%v", len(lines), len(tt.want), err)
			}
			for i, line := range lines {
				if i < len(tt.want) && !strings.Contains(line, tt.want[i]) {
					t.Errorf("it says\n%s\nwant\n%s", line, tt.want[i])
				}
			}
		})
	}
}

// TestEmulatorsHaveNoFile: the context says all of a test's installation.
func TestEmulatorsHaveNoFile(t *testing.T) {
	s, err := stage("broken", map[string]string{"emulator": miniStack, "gatewayUrl": "http://{deployment}.apis.example.com"})
	if err != nil || s.Protected {
		t.Errorf("settings %+v, error %v", s, err)
	}
}

// TestWordThatNobodyReadsIsRefused: one that is mistyped would be taken for one that is not said.
func TestWordThatNobodyReadsIsRefused(t *testing.T) {
	err := strangers(map[string]any{"wfa": "true", "waf": "true", "aws:cdk:enable-asset-metadata": true, "@aws-cdk/core:x": true, "emulator": "", "gatewayConnectionsPerAddress": "1"})
	if err == nil || err.Error() != `-c wfa: there is no word "wfa": did you mean waf?` {
		t.Errorf("error %v", err)
	}
	for _, args := range [][]string{{"-c", "wfa=true"}, {"--context", "wfa=true"}, {"-c", "stage"}, {"stage=dev"}, {"-x", "stage=dev"}, {"-c"}} {
		if err := check(args); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want one line", args, err)
		}
	}
}

// TestStagesOfTheRepositoryAreRight: each has its file read, with what it leaves open given. Those of the team may say what they like.
func TestStagesOfTheRepositoryAreRight(t *testing.T) {
	for folder, least := range map[string][]string{"stages": {"dev", "production"}, "testdata/stages": {"everything", "private"}} {
		names := stageNames(os.DirFS(folder))
		for _, name := range least {
			if !slices.Contains(names, name) {
				t.Errorf("%s has no stage %s, which docs/aws.md or the Makefile name", folder, name)
			}
		}
		for _, name := range names {
			said, err := readStage(os.DirFS(folder), folder, name)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			open := map[string]any{"stage": name, "stages": folder, "gatewayDomain": "apis.example.com", "certificateArn": arn}
			for word := range said {
				delete(open, word)
			}
			if _, err := settingsOfStage(os.DirFS, func(word string) any { return open[word] }); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestStageOfTheDocumentationIsRight: who copies it has a file that is read.
func TestStageOfTheDocumentationIsRight(t *testing.T) {
	page, err := os.ReadFile("../docs/aws.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/aws.md shows no file of a stage")
	}
	if s, err := stage(text, nil); err != nil || !s.Protected || !s.WAF {
		t.Errorf("settings %+v, error %v", s, err)
	}
}

// schema is the JSON Schema of a stage's file: an editor knows by it what may be said.
func schema() any {
	properties := map[string]any{"$schema": map[string]any{"type": "string"}}
	for _, w := range declaredWords() {
		if !w.inContext {
			properties[w.name] = w.schema
		}
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "The settings of an installation in AWS (docs/aws.md)",
		"type":    "object", "additionalProperties": false, "properties": properties,
		"anyOf": []any{
			map[string]any{"properties": map[string]any{"protected": map[string]any{"const": false}}, "required": []string{"protected"}},
			map[string]any{"required": irreversible},
		},
	}
}

func TestSchemaOfStagesIsTheDeclarations(t *testing.T) {
	text, err := json.MarshalIndent(schema(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, filepath.Join("stages", schemaFile), string(text)+"\n")
}

// TestSchemaRefusesWhatReadingRefuses: an editor says of a file what a deployment will.
func TestSchemaRefusesWhatReadingRefuses(t *testing.T) {
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
	values := []string{`true`, `false`, `"text"`, `""`, `0`, `1`, `3`, `128`, `512`, `10241`, `256.5`, `-1`, `null`, `[]`, `["a"]`, `[1]`, `{}`, `"single"`, `"arm64"`, `"apis.example.com"`, `"` + arn + `"`}
	refused := 0
	for _, w := range append(declaredWords(), word{name: "unheardOf", schema: &huma.Schema{}}, word{name: "$schema", schema: &huma.Schema{}}) {
		for _, value := range values {
			file := fmt.Sprintf(`{"table": "single", "multiRegionKey": false, %q: %s}`, w.name, value)
			if w.name == "table" || w.name == "multiRegionKey" {
				file = fmt.Sprintf(`{"protected": false, %q: %s}`, w.name, value)
			}
			if w.name == "$schema" && value != `"text"` {
				continue // for editors alone
			}
			document, err := jsonschema.UnmarshalJSON(strings.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			_, read := readStage(fstest.MapFS{"team.json": {Data: []byte(file)}}, "infra/stages", "team")
			if err := compiled.Validate(document); (err != nil) != (read != nil) {
				t.Errorf("%s: the schema says %v, reading %v", file, err, read)
			}
			if read != nil {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("nothing is refused")
	}
}

// TestEverySettingIsAWord: each field of Settings is said by a word, or derived.
func TestEverySettingIsAWord(t *testing.T) {
	derived := []string{"Bounds", "FileDigest"}
	of := reflect.TypeFor[Settings]()
	for i := range of.NumField() {
		name := of.Field(i).Tag.Get("json")
		switch w, is := wordNamed(name); {
		case slices.Contains(derived, of.Field(i).Name):
		case !is:
			t.Errorf("no word says %s", of.Field(i).Name)
		case !w.inContext && w.schema.Description == "":
			t.Errorf("nothing is written of %s: it needs a doc", name)
		}
	}
	// What functions have of their own where nothing is said.
	w, _ := wordNamed("docsAnswersADay")
	if fmt.Sprint(w.schema.Default) != fmt.Sprint(config.DefaultDocsAnswersADay) || !config.IsDocsAnswersADay(int(*w.schema.Maximum)) || config.IsDocsAnswersADay(int(*w.schema.Maximum)+1) {
		t.Errorf("docsAnswersADay is %v of %v at most", w.schema.Default, *w.schema.Maximum)
	}
}

// TestWordsAreDocumented derives the table of docs/aws.md.
func TestWordsAreDocumented(t *testing.T) {
	const path, begin, end = "../docs/aws.md", "<!-- table: stage -->\n", "<!-- end of the table -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no table of the stages' words", path)
	}
	var table strings.Builder
	table.WriteString("\n| word | without it | what it may be | what |\n|---|---|---|---|\n")
	for _, w := range declaredWords() {
		if w.inContext {
			continue
		}
		without := w.without
		if w.schema.Default != nil {
			without = fmt.Sprintf("`%v`", w.schema.Default)
		}
		if slices.Contains(irreversible, w.name) {
			without += ", and needed of a protected one"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", w.name, without, strings.TrimPrefix(strings.TrimPrefix(w.demand(), "is one of "), "is "), strings.ReplaceAll(w.schema.Description, "|", `\|`))
	}
	golden.Equal(t, path, before+begin+table.String()+"\n"+end+after)
}
