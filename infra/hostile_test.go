package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// TestHostileStageFileIsRefusedWithReadableLines reads invalid files. Each file must cause an error with lines of a
// readable length and without control characters.
func TestHostileStageFileIsRefusedWithReadableLines(t *testing.T) {
	for name, file := range map[string]string{
		"a byte order mark":                  "\ufeff{" + validSettings + "}",
		"UTF-16":                             "\xff\xfe{\x00}\x00",
		"invalid UTF-8":                      `{` + validSettings + `, "docsAnswers": "` + "\xff" + `"}`,
		"one half of a surrogate pair":       `{` + validSettings + `, "docsAnswers": "\ud800"}`,
		"NUL between members":                "{\x00" + validSettings + "}",
		"NUL as a name":                      `{` + validSettings + `, "\u0000": 1}`,
		"name with a line feed":              `{` + validSettings + `, "a\nb": 1}`,
		"a name with an escape":              `{` + validSettings + `, "\u001b[2Jwaf": true}`,
		"name with a right-to-left override": `{` + validSettings + `, "\u202efaw": true}`,
		"name in full-width letters":         `{` + validSettings + `, "ｗａｆ": true}`,
		"name with a zero-width space":       `{` + validSettings + `, "waf\u200b": true}`,
		"an empty name":                      `{` + validSettings + `, "": true}`,
		"a long name":                        `{` + validSettings + `, "` + strings.Repeat("w", 60_000) + `": true}`,
		"many names":                         `{` + validSettings + manySettings(3000) + `}`,
		"member __proto__":                   `{` + validSettings + `, "__proto__": {"protected": false}}`,
		"member constructor":                 `{` + validSettings + `, "constructor": {}}`,
		"duplicate member with an escape":    `{` + validSettings + `, "waf": true, "\u0077af": false}`,
		"duplicate member protected":         `{"protected": true, ` + validSettings + `}`,
		"a comma at the end":                 `{` + validSettings + `,}`,
		"a comment":                          `{` + validSettings + ` // as in the other account` + "\n}",
		"C comment":                          `{` + validSettings + ` /* , "protected": true */}`,
		"two objects":                        `{` + validSettings + `}{}`,
		"lines of objects":                   `{` + validSettings + "}\n{" + validSettings + "}\n",
		"single quotes":                      `{'protected': false}`,
		"names without quotes":               `{protected: false}`,
		"YAML":                               "protected: false\n",
		"NaN":                                `{` + validSettings + `, "memory": NaN}`,
		"a hexadecimal number":               `{` + validSettings + `, "memory": 0x200}`,
		"number out of range":                `{` + validSettings + `, "memory": 1e400}`,
		"many digits":                        `{` + validSettings + `, "memory": ` + strings.Repeat("9", 10_000) + `}`,
		"negative number":                    `{` + validSettings + `, "concurrency": -1}`,
		"number with a small fraction":       `{` + validSettings + `, "memory": 512.0000001}`,
		"deep lists": `{` + validSettings + `, "origins": ` + strings.Repeat("[",
			20_000) + strings.Repeat("]", 20_000) + `}`,
		"deep objects": `{` + validSettings + `, "origins": ` + strings.Repeat(`{"a":`, 9_000) + "1" +
			strings.Repeat("}", 9_000) + `}`,
		"a list in a list":    `{` + validSettings + `, "origins": [["https://a.example.com"]]}`,
		"a list of nulls":     `{` + validSettings + `, "origins": [null]}`,
		"number as protected": `{"protected": 0}`,
		"null as protected":   `{"protected": null}`,
		"list as protected":   `{"protected": [false]}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadTestStage(file, nil)
			requireReadable(t, err)
		})
	}
}

// requireReadable fails the test unless err is an error that consists of readable lines.
func requireReadable(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("error = nil, want one")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) > 20 {
		t.Errorf("the error has %d lines, want at most 20", len(lines))
	}
	for _, line := range lines {
		if len(line) > 500 || line == "" {
			t.Errorf("the error has a line of %d bytes, want 1 to 500: %.300s", len(line), line)
		}
		unreadable := func(r rune) bool { return r < ' ' || strings.ContainsRune("\x7f\ufffd\u202e\u200b", r) }
		if strings.ContainsFunc(line, unreadable) {
			t.Errorf("the error has the line %.300q, want printable characters only", line)
		}
	}
}

// manySettings returns n unknown settings as members of a JSON object, each after a comma.
func manySettings(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, `, "no%d": 1`, i)
	}
	return out.String()
}

// hostileTexts are values that no setting accepts. CloudFormation, the CDK or a shell would interpret some of them.
// Others are blank or very long, or have characters that nobody sees.
var hostileTexts = []string{
	"{{resolve:ssm:/gatewright/other/secret}}", "{{resolve:secretsmanager:x:SecretString}}", "${AWS::AccountId}",
	"${Token[TOKEN.1]}", "$(id)", "`id`",
	"a\u0000b", "a\nb", "a\r\nb", "a\u001b[2Jb", "a\u202eb", " ", " x", "x ", "\u00a0", "ａ", strings.Repeat("a", 50_000),
	"../../etc/passwd", "-c protected=false", "--", "\"", "'; rm -rf /",
}

// TestSettingsRefuseHostileText checks that each text is refused with an error that names the setting, so that the text
// reaches neither a template nor a process. Only the setting limits accepts a blank text.
func TestSettingsRefuseHostileText(t *testing.T) {
	for _, def := range settingDefs() {
		if def.contextOnly || def.name == "stage" {
			continue
		}
		for _, text := range append(slices.Clone(hostileTexts), testCertificateARN+"${AWS::AccountId}",
			"https://{deployment}.a.example.com{{resolve:ssm:x}}", "https://a.example.com/${x}") {
			if def.name == "limits" && strings.TrimSpace(text) == "" {
				continue // no limits: a valid value
			}
			var value any = text
			if def.schema.Type == huma.TypeArray {
				value = []string{text}
			}
			raw, err := json.Marshal(map[string]any{
				"protected": false, "gatewayDomain": "apis.example.com",
				"certificateArn": testCertificateARN, "gatewayTasks": 2, def.name: value,
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := loadTestStage(string(raw), nil); err == nil {
				t.Errorf("loadTestStage(%s = %.60q) error = nil, want one", def.name, text)
			} else if !strings.Contains(err.Error(), def.name) {
				t.Errorf("loadTestStage(%s = %.60q) error = %.200v, want the name of the setting in it", def.name, text, err)
			} else {
				requireReadable(t, err)
			}
		}
	}
}

// TestStageFileMustBeARegularFile checks that a device, a pipe, a folder or a huge file is an error. Reading it must
// not block or read without an end.
func TestStageFileMustBeARegularFile(t *testing.T) {
	folder := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"zero": "/dev/zero", "loop": "loop.json", "folder": "."} {
		if err := os.Symlink(target, filepath.Join(folder, name+".json")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(createEmpty(t, filepath.Join(folder, "large.json")), 1<<40); err != nil {
		t.Log(err) // this file system has no such large files
	}
	for _, name := range []string{"pipe", "zero", "loop", "folder", "large"} {
		_, err := readStage(os.DirFS(folder), "infra/stages", name)
		if err == nil {
			t.Errorf("readStage(%s) error = nil, want one", name)
			continue
		}
		requireReadable(t, err)
		if !strings.Contains(err.Error(), "infra/stages/"+name+".json") {
			t.Errorf("readStage(%s) error = %v, want the file in it", name, err)
		}
	}
}

func createEmpty(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestContextCannotOverrideTheStageFile checks that the context cannot change a setting of the file, or select another
// file, by an unusual spelling of a value.
func TestContextCannotOverrideTheStageFile(t *testing.T) {
	for name, tt := range map[string]struct {
		file    string
		context map[string]string
	}{
		"protection in the context": {
			`{"table": "single", "multiRegionKey": false, "protected": true, "gatewayDomain": "apis.example.com", ` +
				`"certificateArn": "` + testCertificateARN + `"}`, map[string]string{"protected": "false"},
		},
		"number in another script": {`{` + validSettings + `}`, map[string]string{"memory": "５１２"}},
		"an exponent":              {`{` + validSettings + `}`, map[string]string{"memory": "1e3"}},
		"TRUE as a boolean":        {`{` + validSettings + `}`, map[string]string{"waf": "TRUE"}},
		"1 as a boolean":           {`{` + validSettings + `}`, map[string]string{"waf": "1"}},
		"unknown emulator":         {`{` + validSettings + `}`, map[string]string{"emulator": "aws"}},
		"emulator that would ignore the file": {
			`{"table": "single", "multiRegionKey": false}`, map[string]string{"emulator": " "},
		},
		"stage in another case":    {`{` + validSettings + `}`, map[string]string{"stage": "Team"}},
		"a stage with a NUL":       {`{` + validSettings + `}`, map[string]string{"stage": "team\x00"}},
		"stage in a folder":        {`{` + validSettings + `}`, map[string]string{"stage": "stages/team"}},
		"stage in a parent folder": {`{` + validSettings + `}`, map[string]string{"stage": ".."}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadTestStage(tt.file, tt.context)
			requireReadable(t, err)
		})
	}
}

// TestRetainedResourcesDoNotBlockRecreation checks resources that AWS keeps when they are removed from the stack.
// CloudFormation cannot create them again, because their names are in use. So either every context has such a resource,
// or the resource's name differs in each stack. Otherwise a protected stage could move from the function to processes,
// or remove its relay, and never move back.
func TestRetainedResourcesDoNotBlockRecreation(t *testing.T) {
	names := map[string]string{
		"AWS::Logs::LogGroup": "LogGroupName", "AWS::S3::Bucket": "BucketName",
		"AWS::SQS::Queue": "QueueName", "AWS::DynamoDB::Table": "TableName",
	}
	retained := func(context map[string]string) map[string]bool {
		out := map[string]bool{}
		for _, stack := range synthesize(t, context).stacks {
			for id, r := range stack.Resources {
				name, err := json.Marshal(r.Properties[names[r.Type]])
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(r.DeletionPolicy, "Retain") && string(name) != "null" &&
					!strings.Contains(string(name), "AWS::StackId") {
					out[id+" "+string(name)] = true
				}
			}
		}
		return out
	}
	all := retained(fullContext())
	if len(all) < 20 {
		t.Errorf("an installation with every setting retains %v, want at least 20 resources", all)
	}
	for setting, context := range map[string]map[string]string{
		"gateway=lambda":    minimalContext(nil),
		"gateway=container": minimalContext(map[string]string{"gateway": "container"}),
		"tableStream":       minimalContext(map[string]string{"tableStream": restoredStream}),
	} {
		got := retained(context)
		for name := range all {
			if !got[name] {
				t.Errorf("with %s the installation has no %s, want it: its name would be in use when it is added again",
					setting, name)
			}
		}
	}
}
