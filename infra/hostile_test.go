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

// TestHostileStageFileIsRefusedInLines whatever a file holds: none is taken, none panics, and what is said of it is lines of a readable length
// without a control character, which name the file or the word.
func TestHostileStageFileIsRefusedInLines(t *testing.T) {
	for name, file := range map[string]string{
		"a byte order mark":            "\ufeff{" + said + "}",
		"UTF-16":                       "\xff\xfe{\x00}\x00",
		"a text that is no UTF-8":      `{` + said + `, "docsAnswers": "` + "\xff" + `"}`,
		"half a surrogate":             `{` + said + `, "docsAnswers": "\ud800"}`,
		"a NUL between":                "{\x00" + said + "}",
		"a NUL as a name":              `{` + said + `, "\u0000": 1}`,
		"a name with a line's end":     `{` + said + `, "a\nb": 1}`,
		"a name with an escape":        `{` + said + `, "\u001b[2Jwaf": true}`,
		"a name to be read backward":   `{` + said + `, "\u202efaw": true}`,
		"a wide name":                  `{` + said + `, "ｗａｆ": true}`,
		"a name with a dot of its own": `{` + said + `, "waf\u200b": true}`,
		"an empty name":                `{` + said + `, "": true}`,
		"a long name":                  `{` + said + `, "` + strings.Repeat("w", 60_000) + `": true}`,
		"many names":                   `{` + said + manyWords(3000) + `}`,
		"a prototype":                  `{` + said + `, "__proto__": {"protected": false}}`,
		"a constructor":                `{` + said + `, "constructor": {}}`,
		"said twice, once escaped":     `{` + said + `, "waf": true, "\u0077af": false}`,
		"protected twice":              `{"protected": true, ` + said + `}`,
		"a comma at the end":           `{` + said + `,}`,
		"a comment":                    `{` + said + ` // as in the other account` + "\n}",
		"a comment of C":               `{` + said + ` /* , "protected": true */}`,
		"two objects":                  `{` + said + `}{}`,
		"lines of objects":             `{` + said + "}\n{" + said + "}\n",
		"single quotes":                `{'protected': false}`,
		"words without quotes":         `{protected: false}`,
		"YAML":                         "protected: false\n",
		"not a number":                 `{` + said + `, "memory": NaN}`,
		"a hexadecimal number":         `{` + said + `, "memory": 0x200}`,
		"a number beyond all":          `{` + said + `, "memory": 1e400}`,
		"many digits":                  `{` + said + `, "memory": ` + strings.Repeat("9", 10_000) + `}`,
		"a number below zero":          `{` + said + `, "concurrency": -1}`,
		"nearly a number":              `{` + said + `, "memory": 512.0000001}`,
		"deep lists":                   `{` + said + `, "origins": ` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
		"deep objects":                 `{` + said + `, "origins": ` + strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000) + `}`,
		"a list in a list":             `{` + said + `, "origins": [["https://a.example.com"]]}`,
		"a list of nulls":              `{` + said + `, "origins": [null]}`,
		"protection by a number":       `{"protected": 0}`,
		"protection by a null":         `{"protected": null}`,
		"protection by a list":         `{"protected": [false]}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := stage(file, nil)
			readable(t, err)
		})
	}
}

// readable fails unless an error is lines that a person reads.
func readable(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("it is taken")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) > 20 {
		t.Errorf("it says %d lines", len(lines))
	}
	for _, line := range lines {
		if len(line) > 500 || line == "" {
			t.Errorf("a line of %d bytes: %.300s", len(line), line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' || r == '\u202e' || r == '\u200b' }) {
			t.Errorf("a line with what no terminal shows: %.300q", line)
		}
	}
}

func manyWords(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, `, "no%d": 1`, i)
	}
	return out.String()
}

// hostileTexts are none that any word is: what CloudFormation, the CDK or a shell would make something else of, and what no file of a person has.
var hostileTexts = []string{
	"{{resolve:ssm:/gatewright/other/secret}}", "{{resolve:secretsmanager:x:SecretString}}", "${AWS::AccountId}", "${Token[TOKEN.1]}", "$(id)", "`id`",
	"a\u0000b", "a\nb", "a\r\nb", "a\u001b[2Jb", "a\u202eb", " ", " x", "x ", "\u00a0", "ａ", strings.Repeat("a", 50_000), "../../etc/passwd", "-c protected=false", "--", "\"", "'; rm -rf /",
}

// TestNoWordTakesAHostileText in a file: each is refused by the word's own name, and so reaches neither a template nor a process.
func TestNoWordTakesAHostileText(t *testing.T) {
	for _, w := range declaredWords() {
		if w.inContext || w.name == "stage" {
			continue
		}
		for _, text := range append(slices.Clone(hostileTexts), arn+"${AWS::AccountId}", "https://{deployment}.a.example.com{{resolve:ssm:x}}", "https://a.example.com/${x}") {
			if w.name == "limits" && strings.TrimSpace(text) == "" {
				continue // a list of none
			}
			var value any = text
			if w.schema.Type == huma.TypeArray {
				value = []string{text}
			}
			raw, err := json.Marshal(map[string]any{"protected": false, "gatewayDomain": "apis.example.com", "certificateArn": arn, "gatewayTasks": 2, w.name: value})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stage(string(raw), nil); err == nil {
				t.Errorf("%s may be %.60q", w.name, text)
			} else if !strings.Contains(err.Error(), w.name) {
				t.Errorf("%s is %.60q, and what is said is %.200v", w.name, text, err)
			} else {
				readable(t, err)
			}
		}
	}
}

// TestStageFileIsAFile: one that is a device, a pipe or a folder is told, and neither waited for nor read to its end.
func TestStageFileIsAFile(t *testing.T) {
	folder := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"zero": "/dev/zero", "loop": "loop.json", "folder": "."} {
		if err := os.Symlink(target, filepath.Join(folder, name+".json")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(touched(t, filepath.Join(folder, "large.json")), 1<<40); err != nil {
		t.Log(err) // no such files here
	}
	for _, name := range []string{"pipe", "zero", "loop", "folder", "large"} {
		_, err := readStage(os.DirFS(folder), "infra/stages", name)
		if err == nil {
			t.Errorf("%s is taken", name)
			continue
		}
		readable(t, err)
		if !strings.Contains(err.Error(), "infra/stages/"+name+".json") {
			t.Errorf("of %s is said: %v", name, err)
		}
	}
}

func touched(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestContextOfAnotherStageDecidesNothing: a word of the context that the file leaves open holds, one that it says is refused, in any spelling.
func TestContextOfAnotherStageDecidesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		file    string
		context map[string]string
	}{
		"protection by the context":   {`{"table": "single", "multiRegionKey": false, "protected": true, "gatewayDomain": "apis.example.com", "certificateArn": "` + arn + `"}`, map[string]string{"protected": "false"}},
		"a number of another script":  {`{` + said + `}`, map[string]string{"memory": "５１２"}},
		"an exponent":                 {`{` + said + `}`, map[string]string{"memory": "1e3"}},
		"TRUE":                        {`{` + said + `}`, map[string]string{"waf": "TRUE"}},
		"1":                           {`{` + said + `}`, map[string]string{"waf": "1"}},
		"an emulator of no kind":      {`{` + said + `}`, map[string]string{"emulator": "aws"}},
		"an emulator to have no file": {`{"table": "single", "multiRegionKey": false}`, map[string]string{"emulator": " "}},
		"a stage of another case":     {`{` + said + `}`, map[string]string{"stage": "Team"}},
		"a stage with a NUL":          {`{` + said + `}`, map[string]string{"stage": "team\x00"}},
		"a stage of a folder":         {`{` + said + `}`, map[string]string{"stage": "stages/team"}},
		"a folder above":              {`{` + said + `}`, map[string]string{"stage": ".."}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := stage(tt.file, tt.context)
			readable(t, err)
		})
	}
}

// TestWhatStaysIsInNobodysWay: what outlives its removal keeps its name, which CloudFormation does not give a second time. So it is left out of no
// installation that another word makes, or it has a name that each stack has anew: else a protected stage could go from the function to
// processes, or without a relay, and never back.
func TestWhatStaysIsInNobodysWay(t *testing.T) {
	names := map[string]string{"AWS::Logs::LogGroup": "LogGroupName", "AWS::S3::Bucket": "BucketName", "AWS::SQS::Queue": "QueueName", "AWS::DynamoDB::Table": "TableName"}
	kept := func(context map[string]string) map[string]bool {
		out := map[string]bool{}
		for _, stack := range synthesise(t, context).stacks {
			for id, r := range stack.Resources {
				name, err := json.Marshal(r.Properties[names[r.Type]])
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(r.DeletionPolicy, "Retain") && string(name) != "null" && !strings.Contains(string(name), "AWS::StackId") {
					out[id+" "+string(name)] = true
				}
			}
		}
		return out
	}
	all := kept(everything())
	if len(all) < 20 {
		t.Errorf("an installation with everything keeps %v alone", all)
	}
	for word, context := range map[string]map[string]string{"gateway=lambda": needed(nil), "gateway=container": needed(map[string]string{"gateway": "container"}), "tableStream": needed(map[string]string{"tableStream": restoredStream})} {
		there := kept(context)
		for name := range all {
			if !there[name] {
				t.Errorf("with %s there is no %s, and what there was of it is in the way when it comes back", word, name)
			}
		}
	}
}
